"""Query parameters, parsed strictly: each at most once, and only as documented (D6).

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
from petstore.api.errors import ApiError, ErrorCode


def invalid_parameter(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_PARAMETER, message)


def single(query: QueryDict, name: str) -> str | None:
    """Return the value, or None if it was not sent. Raises ApiError 400 if it was repeated."""
    values = query.getlist(name)
    if len(values) > 1:
        raise invalid_parameter(f"`{name}` was sent {len(values)} times. Send it once.")
    return values[0] if values else None


def bounded(query: QueryDict, name: str, default: int, minimum: int, maximum: int) -> int:
    """Return a whole number within the bounds, both inclusive. Raises ApiError 400."""
    value = single(query, name)
    if value is None:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,9}", value) or not minimum <= int(value) <= maximum:
        raise invalid_parameter(f"`{name}` must be a whole number from {minimum} to {maximum}.")
    return int(value)


@dataclass(frozen=True)
class Filter:
    """A query parameter that selects the rows with its value: a word, or an id."""

    name: str  # Of the parameter and of the member.
    sentence: str  # For the OpenAPI document.
    column: str  # Of the model.
    choices: type[TextChoices] | None = None  # The accepted words; None for any int64.

    def read(self, text: str) -> Any:
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
        """Describe it for the OpenAPI document, with an example that the demo's data has."""
        schema: dict[str, Any] = int64.SCHEMA
        if self.choices is not None:  # Responses use the same schema.
            schema = {"$ref": f"#/components/schemas/{self.choices.__name__}"}
        example = 1 if self.choices is None else str(self.choices.values[0])
        described = {"schema": schema, "description": self.sentence, "example": example}
        return {"in": "query", "name": self.name, **described}


Filters = tuple[Filter, ...]


def filter_values(query: QueryDict, filters: Filters) -> dict[Filter, Any]:
    """Return the value of each filter that was sent, in the order of declaration. Raises ApiError 400."""
    texts = {one: single(query, one.name) for one in filters}
    return {one: one.read(text) for one, text in texts.items() if text is not None}
