"""Declarations of the API resources' members.

Lists, `as_json`, events, serializers, OpenAPI examples and the columns of import and export derive from
them ("Adding a field" in CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, Expression, F, Model, QuerySet, Value, When

from inventory.status import OrderStatus, PetStatus

REQUIRED = object()  # The default of a member without one.


@dataclass(frozen=True, kw_only=True)
class Member:
    """One member: its source, validation and documentation."""

    name: str
    help_text: str
    example: Any
    field_class: str  # The name of a serializer field of fields.py or DRF.
    options: Mapping[str, Any] = field(default_factory=dict)  # Keyword arguments of `field_class`.
    source: str = ""  # The model's attribute, if its name differs.
    sql: Expression | None = None  # A computed member has both `sql` and `python`.
    python: Callable[[Any], Any] | None = None
    writable: bool = False
    input_field_class: str = ""  # For requests, if it differs from `field_class`.
    default: Any = REQUIRED  # Of a writable member.
    column: str = ""  # The column of files that holds the name of a related row.
    file_help: str = ""  # The values allowed in files.

    @property
    def attribute(self) -> str:
        return self.source or self.name

    @property
    def model_field(self) -> str:
        """The name of the field in forms."""
        return self.attribute.removesuffix("_id")

    @property
    def columns(self) -> list[str]:
        """The columns of files that may hold the value, the exported one first."""
        return [name for name in (self.column, self.name) if name]

    @property
    def expression(self) -> Any:
        """The annotation of a queryset, or None for a column of the same name."""
        if self.sql is not None:
            return self.sql
        return F(self.source) if self.source else None

    def value(self, row: Model) -> Any:
        return self.python(row) if self.python is not None else getattr(row, self.attribute)


class Members:
    """The members of a resource, in their order in JSON."""

    def __init__(self, *members: Member) -> None:
        self.members = members
        self.writable = tuple(member for member in members if member.writable)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @property
    def form_fields(self) -> list[str]:
        """The model fields that staff may edit."""
        return [member.model_field for member in self.writable]

    def values(self, rows: QuerySet[Any]) -> QuerySet[Any, Any]:
        computed = {member.name: member.expression for member in self if member.expression is not None}
        values: QuerySet[Any, Any] = rows.annotate(**computed).values(*self.names)
        return values

    def as_json(self, row: Model) -> dict[str, Any]:
        return {member.name: member.value(row) for member in self.members}

    def example(self, **changes: Any) -> dict[str, Any]:
        return {member.name: member.example for member in self} | changes


ID = Member(
    name="id",
    help_text="Unique identifier, assigned by the service.",
    example=1,
    field_class="Int64Field",
)

PET = Members(
    ID,
    Member(
        name="name",
        help_text="The pet's name.",
        example="Biscuit",
        field_class="NameField",
        writable=True,
    ),
    Member(
        name="categoryId",
        help_text="Identifier of the category that the pet belongs to.",
        example=1,
        field_class="Int64Field",
        source="category_id",
        writable=True,
        input_field_class="CategoryIdField",
        column="category",
        file_help="a category's name",
    ),
    Member(
        name="status",
        help_text="Availability status.",
        example=PetStatus.AVAILABLE.value,
        field_class="StatusField",
        writable=True,
        default=PetStatus.AVAILABLE.value,
        file_help="available, pending or sold; available if it is left out",
    ),
)

ORDER = Members(
    ID,
    Member(
        name="petId",
        help_text="Identifier of the pet.",
        example=1,
        field_class="Int64Field",
        source="pet_id",
        writable=True,
    ),
    Member(
        name="quantity",
        help_text="Always 1: every pet is unique.",
        example=1,
        field_class="IntegerField",
        options={"min_value": 1, "max_value": 1},
        sql=Value(1),
        python=lambda order: 1,
    ),
    Member(
        name="status",
        help_text="Where the order stands.",
        example=OrderStatus.PLACED.value,
        field_class="ChoiceField",
        options={"choices": OrderStatus.choices},
    ),
    Member(
        name="shipDate",
        help_text="When the pet leaves, in UTC.",
        example=None,
        field_class="DateTimeField",
        options={"allow_null": True},
        source="ship_date",
    ),
    Member(
        name="complete",
        help_text="True once the pet is delivered.",
        example=False,
        field_class="BooleanField",
        sql=Case(When(status=OrderStatus.DELIVERED, then=True), default=False),
        python=lambda order: order.status == OrderStatus.DELIVERED,
    ),
)
