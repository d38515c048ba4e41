"""Serializers that validate requests and describe bodies in the OpenAPI document.

fields.py has the rules of values, such as the characters of a name (NameField), and members.py which fields
exist. Responses are built without a serializer. Docstrings become descriptions in the document.
"""

from typing import Any

from django.utils.functional import cached_property
from rest_framework import serializers

from inventory import members
from inventory.fields import Int64Field, build_field
from inventory.members import Members
from inventory.models import Category


class OutputSerializer(serializers.Serializer[Any]):
    members: Members

    def get_fields(self) -> dict[str, Any]:
        return {member.name: build_field(member) for member in self.members}


class InputSerializer(serializers.Serializer[Any]):
    """A request body. One instance validates all requests, so `_writable_fields` is cached."""

    members: Members

    def get_fields(self) -> dict[str, Any]:
        return {member.name: build_field(member, for_input=True) for member in self.members.writable}

    @cached_property
    def _writable_fields(self) -> list[Any]:
        return list(super()._writable_fields)


class NewPetSerializer(InputSerializer):
    """NewPet: the body that adds a pet."""

    members = members.PET


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
