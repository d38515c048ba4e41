"""The filters of lists, each declared once: its check, the Link header, the document and tests follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices
from django.http import QueryDict

from petstore.api import int64
from petstore.api.query_params import invalid_parameter, single


@dataclass(frozen=True)
class Filter(ABC):
    """A query parameter that keeps those rows of a list that have its value."""

    name: str  # Of the parameter, and of the member of each row that it is compared with.
    sentence: str  # What the OpenAPI document says of it.
    column: str  # Of the model.

    def read(self, text: str) -> Any:
        """Return the value that was sent. Raises ApiError 400."""
        value = self.value(text)
        if value is None:
            raise invalid_parameter(f"`{self.name}` must be {self.wanted}.")
        return value

    @abstractmethod
    def value(self, text: str) -> Any:
        """Return the value, or None if this is not one."""

    @property
    @abstractmethod
    def wanted(self) -> str:
        """What the value must be, as an end of a sentence."""

    @property
    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The value's schema in the OpenAPI document."""

    @property
    @abstractmethod
    def example(self) -> Any:
        """A value that some row of the demo has."""

    def parameter(self) -> dict[str, Any]:
        described = {"schema": self.schema, "description": self.sentence, "example": self.example}
        return {"in": "query", "name": self.name, **described}


@dataclass(frozen=True)
class ChoiceFilter(Filter):
    """A filter by one of a few words, whose schema has the name of their class."""

    choices: type[TextChoices]

    def value(self, text: str) -> str | None:
        return text if text in self.choices.values else None

    @property
    def wanted(self) -> str:
        return f"one of {', '.join(self.choices.values)}"

    @property
    def schema(self) -> dict[str, Any]:
        """A reference: answers have the same words."""
        return {"$ref": f"#/components/schemas/{self.choices.__name__}"}

    @property
    def example(self) -> str:
        return str(self.choices.values[0])


@dataclass(frozen=True)
class Int64Filter(Filter):
    """A filter by an id."""

    wanted = "a whole number from -2^63 to 2^63 - 1"
    schema = int64.SCHEMA
    example = 1

    def value(self, text: str) -> int | None:
        return int64.int64(text)


Filters = tuple[Filter, ...]


def chosen(query: QueryDict, filters: Filters) -> dict[Filter, Any]:
    """Return the value of each filter that was sent, in the order in which the list declares them."""
    texts = {one: single(query, one.name) for one in filters}
    return {one: one.read(text) for one, text in texts.items() if text is not None}
