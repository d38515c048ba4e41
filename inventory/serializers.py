"""Serializers that validate requests and describe bodies in the OpenAPI document.

fields.py has the rules of values, such as the characters of a name (NameField), and members.py which fields
exist. Responses are built without a serializer. Docstrings become descriptions in the document.
"""

from typing import Any

from rest_framework import serializers

from inventory import members
from inventory.fields import Int64Field, NewPetListField, build_field
from inventory.members import Members
from inventory.models import Category


class OutputSerializer(serializers.Serializer[Any]):
    members: Members

    def get_fields(self) -> dict[str, Any]:
        return {member.name: build_field(member) for member in self.members}


class InputSerializer(serializers.Serializer[Any]):
    """A request body."""

    members: Members

    def get_fields(self) -> dict[str, Any]:
        return {member.name: build_field(member, for_input=True) for member in self.members.writable}


class NewPetSerializer(InputSerializer):
    """NewPet: the body that adds a pet."""

    members = members.PET

    def __init__(self, *, checks_category: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.checks_category = checks_category

    def get_fields(self) -> dict[str, Any]:
        unchecked = {} if self.checks_category else {"categoryId": Int64Field(source="category_id")}
        return super().get_fields() | unchecked


class NewPetsSerializer(serializers.Serializer[Any]):
    """NewPets: the body that adds several pets."""

    pets = NewPetListField(child=NewPetSerializer(checks_category=False), help_text="The pets to add.")


class PetSerializer(OutputSerializer):
    """Pet: a pet as every response shows it."""

    members = members.PET


class NewOrderSerializer(InputSerializer):
    """NewOrder: the body that orders a pet."""

    members = members.ORDER


class OrderSerializer(OutputSerializer):
    """Order: one account's order of one pet."""

    members = members.ORDER


class CategorySerializer(serializers.ModelSerializer[Category]):
    """Category: a kind of pet."""

    id = Int64Field()

    class Meta:
        model = Category
        fields = ["id", "name", "description"]
        extra_kwargs = {"description": {"required": True}}  # Always present, though it may be empty.
