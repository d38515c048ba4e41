"""The filters of lists, each declared once: its check, the Link header, the document and tests follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices
from django.http import QueryDict

from petstore.api import int64
from petstore.api.query_params import invalid_parameter, single


@dataclass(frozen=True)
class Filter:
    """A query parameter that keeps those rows of a list that have its value: a word, or an id."""

    name: str  # Of the parameter, and of the member of each row that it is compared with.
    sentence: str  # What the OpenAPI document says of it.
    column: str  # Of the model.
    choices: type[TextChoices] | None = None  # The words that it takes. None: it takes any int64.

    def read(self, text: str) -> Any:
        """Return the value that was sent. Raises ApiError 400."""
        value: Any
        if self.choices is None:
            value, wanted = int64.int64(text), "a whole number from -2^63 to 2^63 - 1"
        else:
            words = self.choices.values
            value, wanted = text if text in words else None, f"one of {', '.join(words)}"
        if value is None:
            raise invalid_parameter(f"`{self.name}` must be {wanted}.")
        return value

    def parameter(self) -> dict[str, Any]:
        """Return it for the OpenAPI document, with an example that some row of the demo has."""
        schema: dict[str, Any] = int64.SCHEMA
        if self.choices is not None:  # Answers have the same words.
            schema = {"$ref": f"#/components/schemas/{self.choices.__name__}"}
        example = 1 if self.choices is None else str(self.choices.values[0])
        described = {"schema": schema, "description": self.sentence, "example": example}
        return {"in": "query", "name": self.name, **described}


Filters = tuple[Filter, ...]


def chosen(query: QueryDict, filters: Filters) -> dict[Filter, Any]:
    """Return the value of each filter that was sent, in the order in which the list declares them."""
    texts = {one: single(query, one.name) for one in filters}
    return {one: one.read(text) for one, text in texts.items() if text is not None}
