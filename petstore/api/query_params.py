"""Strict parsing of query parameters: a documented parameter may occur once, with a documented value (D6).

The filters of a list are declared once. Validation, the Link header, the OpenAPI document and tests use
that declaration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices
from django.http import QueryDict

from petstore.api import int64
from petstore.api.errors import invalid_parameter

MAX_IDS = 100


def get_single_value(query: QueryDict, name: str) -> str | None:
    """Return the value, or None if it was not sent. Raises ApiError 400 if it was repeated."""
    values = query.getlist(name)
    if len(values) > 1:
        raise invalid_parameter(f"`{name}` was sent {len(values)} times. Send it once.")
    return values[0] if values else None


def get_bounded_integer(query: QueryDict, name: str, default: int, minimum: int, maximum: int) -> int:
    """Return a positive whole number, or the default if it was not sent. Raises ApiError 400."""
    value = get_single_value(query, name)
    if value is None:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,9}", value) or not minimum <= int(value) <= maximum:
        raise invalid_parameter(f"`{name}` must be a whole number from {minimum} to {maximum}.")
    return int(value)


@dataclass(frozen=True)
class Filter:
    """A query parameter that selects the rows with its value, which is a choice or an id."""

    name: str  # The name of the parameter and of the field.
    description: str  # For the OpenAPI document.
    column: str  # The name of the model's column.
    choices: type[TextChoices] | None = None  # None accepts any int64.

    def parse(self, text: str) -> int | str:
        if self.choices is None:
            number = int64.parse_int64(text)
            if number is None:
                raise invalid_parameter(f"`{self.name}` must be a whole number from -2^63 to 2^63 - 1.")
            return number
        if text not in self.choices.values:
            raise invalid_parameter(f"`{self.name}` must be one of {', '.join(self.choices.values)}.")
        return text

    def build_parameter(self) -> dict[str, Any]:
        """Build the OpenAPI parameter, with an example that occurs in the demo data."""
        parameter: dict[str, Any] = {"in": "query", "name": self.name}
        if self.choices is None:
            return parameter | {"schema": int64.SCHEMA, "description": self.description, "example": 1}
        schema = {"$ref": f"#/components/schemas/{self.choices.__name__}"}  # Responses use it as well.
        example = str(self.choices.values[0])
        return parameter | {"schema": schema, "description": self.description, "example": example}


@dataclass(frozen=True)
class IdsFilter(Filter):
    """A query parameter that selects rows by their ids, which are separated by commas (D61)."""

    column: str = "id__any_of"

    def parse(self, text: str) -> str:
        ids = text.split(",")
        if len(ids) > MAX_IDS or None in map(int64.parse_int64, ids):
            raise invalid_parameter(
                f"`{self.name}` must be 1 to {MAX_IDS} whole numbers from -2^63 to 2^63 - 1, "
                "separated by commas."
            )
        return text

    def build_parameter(self) -> dict[str, Any]:
        schema = {"type": "array", "items": int64.SCHEMA, "minItems": 1, "maxItems": MAX_IDS}
        style = {"style": "form", "explode": False, "schema": schema, "example": [1, 2, 3]}
        return {"in": "query", "name": self.name, "description": self.description} | style


Filters = tuple[Filter, ...]
