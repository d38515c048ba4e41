"""Serializer fields that take exactly the JSON types of the contract (D3); DRF's own convert."""

from typing import Any

from rest_framework import serializers

from inventory.members import REQUIRED, Member
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

    def to_representation(self, value: str) -> str:
        return value


class Int64Field(serializers.Field[int, Any, int, Any]):
    """A JSON number whose value is an integer in int64; `1.0` is one to JSON Schema."""

    default_error_messages = {"type": "Must be an integer from -2^63 to 2^63 - 1."}

    def to_internal_value(self, data: Any) -> int:
        if not is_int64(data):
            self.fail("type")
        return int(data)

    def to_representation(self, value: int) -> int:
        return value


# Categories that were seen. One that is deleted later is still refused, by the database.
seen_categories: set[int] = set()
MOST_SEEN = 10_000


def category_exists(category_id: int) -> bool:
    """Tell whether there is such a category, or was when a worker saw it."""
    from inventory.queries import CATEGORIES  # Of models, which import the members.

    if category_id in seen_categories:
        return True
    exists = CATEGORIES.where(id=category_id).one() is not None
    if exists and len(seen_categories) < MOST_SEEN:
        seen_categories.add(category_id)
    return exists


class CategoryIdField(Int64Field):
    """An integer that names an existing category (D5)."""

    default_error_messages = {
        "unknown_category": "No category has this id. List them with GET /categories."
    }

    def to_internal_value(self, data: Any) -> int:
        category_id = super().to_internal_value(data)
        if not category_exists(category_id):
            self.fail("unknown_category")
        return category_id


class StatusField(serializers.ChoiceField):
    """One of the three statuses, as a JSON string; DRF's own field would take other types."""

    default_error_messages = {"type": f"Must be one of {', '.join(PetStatus.values)}."}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=PetStatus.choices, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("type")
        return data


def field_of(member: Member, *, sent: bool = False) -> serializers.Field[Any, Any, Any, Any]:
    """Make the serializer's field of a member, as the API shows it or as clients send it."""
    rule = (sent and member.sent_rule) or member.rule
    kind = globals().get(rule) or getattr(serializers, rule)
    options = {"help_text": member.help_text, **member.options}
    if member.source:
        options["source"] = member.source
    if sent and member.default is None:  # A default would make it required for generated clients.
        options["required"] = False
    elif sent and member.default is not REQUIRED:
        options["default"] = member.default
    made: serializers.Field[Any, Any, Any, Any] = kind(**options)
    return made
