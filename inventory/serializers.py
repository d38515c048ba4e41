"""The contract's bodies. Lists and reads are made by the database: these check input and document."""

from typing import Any

from django.utils.functional import cached_property
from rest_framework import serializers

from inventory.fields import CategoryIdField, Int64Field, NameField, StatusField
from inventory.models import Category, Order, OrderStatus, Pet, PetStatus


class InputSerializer(serializers.Serializer[Any]):
    """A body that is sent. One serializer checks those of all requests, so it looks for its fields once."""

    @cached_property
    def _writable_fields(self) -> list[Any]:
        return list(super()._writable_fields)


class NewPetSerializer(InputSerializer):
    """NewPet: the body that adds a pet."""

    name = NameField(help_text="The pet's name.")
    categoryId = CategoryIdField(
        source="category_id", help_text="Identifier of the category that the pet belongs to."
    )
    status = StatusField(default=PetStatus.AVAILABLE, help_text="Availability status.")


class PetSerializer(serializers.Serializer[Pet]):
    """Pet: a pet as every answer shows it."""

    id = Int64Field(help_text="Unique identifier, assigned by the service.")
    name = NameField(help_text="The pet's name.")
    categoryId = Int64Field(
        source="category_id", help_text="Identifier of the category that the pet belongs to."
    )
    status = StatusField(help_text="Availability status.")


class NewOrderSerializer(InputSerializer):
    """NewOrder: the body that orders a pet."""

    petId = Int64Field(source="pet_id", help_text="Identifier of the pet.")


class OrderSerializer(serializers.Serializer[Order]):
    """Order: one account's order of one pet."""

    id = Int64Field(help_text="Unique identifier, assigned by the service.")
    petId = Int64Field(help_text="Identifier of the pet.")
    quantity = serializers.IntegerField(
        min_value=1, max_value=1, help_text="Always 1: every pet is unique."
    )
    status = serializers.ChoiceField(OrderStatus.choices, help_text="Where the order stands.")
    shipDate = serializers.DateTimeField(allow_null=True, help_text="When the pet leaves, in UTC.")
    complete = serializers.BooleanField(help_text="True once the pet is delivered.")


class CategorySerializer(serializers.ModelSerializer[Category]):
    """Category: a kind of pet."""

    id = Int64Field()

    class Meta:
        model = Category
        fields = ["id", "name", "description"]
        extra_kwargs = {"description": {"required": True}}  # In every answer, though it may be empty.
