"""The contract's bodies. Lists and reads are made by the database: these check input and document."""

from typing import Any

from django.utils.functional import cached_property
from rest_framework import serializers

from inventory import members
from inventory.fields import Int64Field, field_of
from inventory.members import Members
from inventory.models import Category


class ShownSerializer(serializers.Serializer[Any]):
    """A resource as every response shows it."""

    members: Members

    def get_fields(self) -> dict[str, Any]:
        return {member.name: field_of(member) for member in self.members}


class InputSerializer(serializers.Serializer[Any]):
    """A body that is sent. One serializer checks those of all requests, so it looks for its fields once."""

    members: Members

    def get_fields(self) -> dict[str, Any]:
        return {member.name: field_of(member, sent=True) for member in self.members.sent}

    @cached_property
    def _writable_fields(self) -> list[Any]:
        return list(super()._writable_fields)


class NewPetSerializer(InputSerializer):
    """NewPet: the body that adds a pet."""

    members = members.PET


class PetSerializer(ShownSerializer):
    """Pet: a pet as every answer shows it."""

    members = members.PET


class NewOrderSerializer(InputSerializer):
    """NewOrder: the body that orders a pet."""

    members = members.ORDER


class OrderSerializer(ShownSerializer):
    """Order: one account's order of one pet."""

    members = members.ORDER


class CategorySerializer(serializers.ModelSerializer[Category]):
    """Category: a kind of pet."""

    id = Int64Field()

    class Meta:
        model = Category
        fields = ["id", "name", "description"]
        extra_kwargs = {"description": {"required": True}}  # In every answer, though it may be empty.
