"""Serializers that validate requests and describe bodies in the OpenAPI document.

serializer_fields.py has the rules of values, such as the length of a text (TextField). Docstrings become
descriptions in the document.
"""

from typing import Any

from rest_framework import serializers

from inventory.models import Category, OrderStatus, PetStatus
from inventory.serializer_fields import CategoryIdField, Int64Field, PetStatusField, TextField
from petstore.api.int64 import is_int64

MAX_BATCH = 100  # Pets in a POST /pets/batch.
ID = "Unique identifier, assigned by the service."
PET_ID = "Identifier of the pet."
PET_STATUS = "Availability status."


class OutputSerializer(serializers.Serializer[Any]):
    """A model instance in a response, as its `as_json` returns it, or a row of a `Read`, which is a dict.

    Our views do without, because building the fields is slow.
    """

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return instance if isinstance(instance, dict) else instance.as_json()


class PetSerializer(OutputSerializer):
    """Pet: a pet as every response shows it."""

    id = Int64Field(help_text=ID)
    name = TextField(help_text="The pet's name.")
    categoryId = CategoryIdField(
        source="category_id", help_text="Identifier of the category that the pet belongs to."
    )
    status = PetStatusField(help_text=PET_STATUS)


class NewPetSerializer(PetSerializer):
    """NewPet: the body that adds a pet."""

    id = None  # type: ignore[assignment]
    status = PetStatusField(default=PetStatus.AVAILABLE.value, help_text=PET_STATUS)


class NewPetListField(serializers.ListField):
    """1 to 100 NewPets, with a problem's index (D58)."""

    default_error_messages = {
        "not_a_list": "Must be a list.",
        **dict.fromkeys(("empty", "min_length", "max_length"), f"Must have 1 to {MAX_BATCH} pets."),
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(min_length=1, max_length=MAX_BATCH, **options)

    def run_child_validation(self, data: list[Any]) -> list[Any]:
        if len(data) > MAX_BATCH:  # DRF would check each item first.
            self.fail("max_length")
        return super().run_child_validation(data)


class NewPetsSerializer(serializers.Serializer[Any]):
    """NewPets: the body that adds several pets."""

    pets = NewPetListField(child=NewPetSerializer(), help_text="The pets to add.")


class NewOrderSerializer(serializers.Serializer[Any]):
    """NewOrder: the body that orders a pet."""

    petId = Int64Field(source="pet_id", help_text=PET_ID)


class OrderSerializer(OutputSerializer):
    """Order: one account's order of one pet."""

    id = Int64Field(help_text=ID)
    petId = Int64Field(source="pet_id", help_text=PET_ID)
    quantity = serializers.IntegerField(
        min_value=1, max_value=1, help_text="Always 1: every pet is unique."
    )
    status = serializers.ChoiceField(choices=OrderStatus.choices, help_text="The status of the order.")
    shipDate = serializers.DateTimeField(
        source="ship_date",
        allow_null=True,
        help_text="The planned or actual time at which the pet leaves the shop, in UTC.",
    )
    complete = serializers.BooleanField(help_text="True once the pet is delivered.")


class CategorySerializer(serializers.ModelSerializer[Category]):
    """Category: a kind of pet."""

    id = Int64Field()

    class Meta:
        model = Category
        fields = ["id", "name", "description"]
        extra_kwargs = {"description": {"required": True}}  # Always present, though it may be empty.


def find_known_categories(body: Any) -> set[int]:
    """Find which of the categories in the body of one or several new pets exist. Takes one query."""
    pets = [body]
    if isinstance(body, dict) and isinstance(body.get("pets"), list):
        pets += body["pets"][:MAX_BATCH]
    values = [pet.get("categoryId") for pet in pets if isinstance(pet, dict)]
    ids = {int(value) for value in values if is_int64(value)}
    return set(Category.objects.filter(pk__in=ids).values_list("pk", flat=True))
