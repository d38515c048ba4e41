"""Strictly typed serializer fields (D3). DRF's own fields coerce their input."""

from typing import Any

from rest_framework import serializers

from inventory.members import REQUIRED, Member
from inventory.queries import CATEGORIES
from inventory.status import PetStatus
from petstore.api.int64 import is_int64
from petstore.db.names import NAME_LENGTH


class NameField(serializers.Field[str, Any, str, Any]):
    """A JSON string of 1 to 255 characters after trimming."""

    default_error_messages = {
        "type": "Must be a string.",
        "blank": "Must have at least one character that is not a blank.",
        "length": f"Must have at most {NAME_LENGTH} characters.",
    }

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("type")
        name = data.strip()
        if not name:
            self.fail("blank")
        if len(name) > NAME_LENGTH:
            self.fail("length")
        return name


class Int64Field(serializers.Field[int, Any, int, Any]):
    """A JSON number with an integral int64 value, such as `1` or, as in JSON Schema, `1.0`."""

    default_error_messages = {"type": "Must be an integer from -2^63 to 2^63 - 1."}

    def to_internal_value(self, data: Any) -> int:
        if not is_int64(data):
            self.fail("type")
        return int(data)


class CategoryIdField(Int64Field):
    """The id of an existing category (D5)."""

    default_error_messages = {
        "unknown_category": "No category has this id. List them with GET /categories."
    }

    def to_internal_value(self, data: Any) -> int:
        category_id = super().to_internal_value(data)
        # The foreign key rejects a category that is deleted after this check.
        if CATEGORIES.where(id=category_id).fetch_one() is None:
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


def build_field(member: Member, *, for_input: bool = False) -> serializers.Field[Any, Any, Any, Any]:
    field_class = globals().get(member.field_class) or getattr(serializers, member.field_class)
    options = {"help_text": member.help_text, **member.options}
    if member.source:
        options["source"] = member.source
    if for_input and member.default is None:
        # No `default`: generated clients would require the member.
        options["required"] = False
    elif for_input and member.default is not REQUIRED:
        options["default"] = member.default
    field: serializers.Field[Any, Any, Any, Any] = field_class(**options)
    return field
