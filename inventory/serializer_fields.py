"""Strictly typed serializer fields (D3). DRF's own fields coerce their input."""

from typing import Any

from rest_framework import serializers

from inventory.status import PetStatus
from petstore.api.int64 import is_int64
from petstore.db.names import NAME_LENGTH
from petstore.observability.redaction import contains_key


class TextField(serializers.Field[str, Any, str, Any]):
    """A JSON string of 1 to 255 characters after trimming, without an API key: a name, for example."""

    default_error_messages = {
        "type": "Must be a string.",
        "blank": "Must have at least one character that is not a blank.",
        "length": f"Must have at most {NAME_LENGTH} characters.",
        "key": "Must not contain an API key.",
    }

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("type")
        text = data.strip()
        if not text:
            self.fail("blank")
        if len(text) > NAME_LENGTH:
            self.fail("length")
        if contains_key(text):  # Every client can read it.
            self.fail("key")
        return text


class Int64Field(serializers.Field[int, Any, int, Any]):
    """A JSON number with an integral int64 value, such as `1` or, as in JSON Schema, `1.0`."""

    default_error_messages = {"type": "Must be an integer from -2^63 to 2^63 - 1."}

    def to_internal_value(self, data: Any) -> int:
        if not is_int64(data):
            self.fail("type")
        return int(data)


class CategoryIdField(Int64Field):
    """The id of a category (D5), which the foreign key checks.

    Only for listing all problems of a rejected body, the context has the `known_categories`.
    """

    default_error_messages = {
        "unknown_category": "No category has this id. List them with GET /categories."
    }

    def to_internal_value(self, data: Any) -> int:
        category_id = super().to_internal_value(data)
        known = self.context.get("known_categories")
        if known is not None and category_id not in known:
            self.fail("unknown_category")
        return category_id


class PetStatusField(serializers.ChoiceField):
    """A PetStatus as a JSON string. DRF's ChoiceField also accepts other types."""

    default_error_messages = {"type": f"Must be one of {', '.join(PetStatus.values)}."}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=PetStatus.choices, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("type")
        return data
