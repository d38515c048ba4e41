"""The contract's bodies. Lists and reads are made by the database: these check input and document."""

from typing import Any

from rest_framework import serializers

from inventory.fields import CategoryIdField, Int64Field, NameField, StatusField
from inventory.models import Category, Order, OrderStatus, Pet, PetStatus
from petstore.loop.compiled_writes import insert


class NewPetSerializer(serializers.Serializer[Pet]):
    """NewPet: the body that adds an animal."""

    name = NameField(help_text="The animal's name.")
    categoryId = CategoryIdField(
        source="category_id", help_text="Identifier of the category that the animal belongs to."
    )
    status = StatusField(default=PetStatus.AVAILABLE, help_text="Availability status.")

    def create(self, validated_data: dict[str, Any]) -> Pet:
        """Add the animal, in one statement. Raises IntegrityError if its category was deleted meanwhile."""
        return insert(Pet(**validated_data))


class PetSerializer(serializers.Serializer[Pet]):
    """Pet: an animal as every answer shows it."""

    id = Int64Field(help_text="Unique identifier, assigned by the service.")
    name = NameField(help_text="The animal's name.")
    categoryId = Int64Field(
        source="category_id", help_text="Identifier of the category that the animal belongs to."
    )
    status = StatusField(help_text="Availability status.")


class NewOrderSerializer(serializers.Serializer[Order]):
    """NewOrder: the body that orders an animal."""

    petId = Int64Field(source="pet_id", help_text="Identifier of the animal.")


class OrderSerializer(serializers.Serializer[Order]):
    """Order: one account's order of one animal."""

    id = Int64Field(help_text="Unique identifier, assigned by the service.")
    petId = Int64Field(help_text="Identifier of the animal.")
    quantity = serializers.IntegerField(
        min_value=1, max_value=1, help_text="Always 1: an animal is one animal."
    )
    status = serializers.ChoiceField(OrderStatus.choices, help_text="Where the order stands.")
    shipDate = serializers.DateTimeField(allow_null=True, help_text="When the animal leaves, in UTC.")
    complete = serializers.BooleanField(help_text="True once the animal is delivered.")


class CategorySerializer(serializers.ModelSerializer[Category]):
    """Category: a kind of animal."""

    id = Int64Field()

    class Meta:
        model = Category
        fields = ["id", "name", "description"]
        extra_kwargs = {"description": {"required": True}}  # In every answer, though it may be empty.
