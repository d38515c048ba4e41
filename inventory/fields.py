"""Strictly typed serializer fields (D3). DRF's own fields coerce their input."""

from typing import Any, cast

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

from inventory.members import REQUIRED, Member
from inventory.models import Category
from inventory.queries import CATEGORIES
from inventory.status import PetStatus
from petstore.api.int64 import is_int64
from petstore.db.names import NAME_LENGTH
from petstore.observability.redaction import contains_key

MAX_BATCH = 100


class NameField(serializers.Field[str, Any, str, Any]):
    """A JSON string of 1 to 255 characters after trimming, without an API key."""

    default_error_messages = {
        "type": "Must be a string.",
        "blank": "Must have at least one character that is not a blank.",
        "length": f"Must have at most {NAME_LENGTH} characters.",
        "key": "Must not contain an API key.",
    }

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("type")
        name = data.strip()
        if not name:
            self.fail("blank")
        if len(name) > NAME_LENGTH:
            self.fail("length")
        if contains_key(name):  # Every client can read it.
            self.fail("key")
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


class NewPetListField(serializers.ListField):
    """1 to 100 NewPets, with a problem's index (D58). One query checks all categories.

    The child must not check them.
    """

    default_error_messages = {
        "not_a_list": "Must be a list.",
        "empty": f"Must have 1 to {MAX_BATCH} pets.",
        "min_length": f"Must have 1 to {MAX_BATCH} pets.",
        "max_length": f"Must have 1 to {MAX_BATCH} pets.",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(min_length=1, max_length=MAX_BATCH, **options)

    def run_child_validation(self, data: list[Any]) -> list[Any]:
        if len(data) > MAX_BATCH:  # DRF would check each item first.
            self.fail("max_length")
        problems: dict[int, Any] = {}
        try:
            pets: list[Any] = super().run_child_validation(data)
        except ValidationError as error:
            problems = cast("dict[int, Any]", error.detail)
        ids = {index: int(pet["categoryId"]) for index, pet in enumerate(data) if has_category_id(pet)}
        known = set(Category.objects.filter(pk__in=set(ids.values())).values_list("pk", flat=True))
        message = CategoryIdField.default_error_messages["unknown_category"]
        for index, category_id in ids.items():
            if category_id not in known:
                problem = ErrorDetail(str(message), "unknown_category")
                problems.setdefault(index, {})["categoryId"] = [problem]
        if problems:
            raise ValidationError(cast("Any", {index: problems[index] for index in sorted(problems)}))
        return pets


def has_category_id(pet: Any) -> bool:
    return isinstance(pet, dict) and is_int64(pet.get("categoryId"))


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
