"""Declarations of the members (JSON fields) of Pet and Order.

Lists, `as_json`, events, serializers, OpenAPI examples and the columns of import and export are derived
from them. See "Adding a field" in CONTRIBUTING.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from django.db.models import Case, Expression, F, Model, QuerySet, Value, When

from inventory.status import OrderStatus, PetStatus

REQUIRED = object()  # Sentinel for no default.


@dataclass(frozen=True)
class Member:
    """The source, validation and documentation of one member."""

    name: str
    help_text: str
    _: KW_ONLY
    example: Any
    field_class: str  # The name of a serializer field in fields.py or DRF.
    options: Mapping[str, Any] = field(default_factory=dict)  # Keyword arguments of `field_class`.
    source: str = ""  # The model's attribute, if its name differs.
    sql: Expression | None = None  # A computed member has both `sql` and `python`.
    python: Callable[[Any], Any] | None = None
    writable: bool = False
    default: Any = REQUIRED  # Applies to writable members.
    column: str = ""  # In imported and exported files, the column with the name of the related row.
    file_help: str = ""  # Describes the allowed values in files.

    @property
    def attribute(self) -> str:
        return self.source or self.name

    @property
    def columns(self) -> list[str]:
        """The columns of imported files that may hold the value; the first one is exported."""
        return [name for name in (self.column, self.name) if name]

    def get_value(self, instance: Model) -> Any:
        return self.python(instance) if self.python is not None else getattr(instance, self.attribute)


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
        return [member.attribute.removesuffix("_id") for member in self.writable]

    def select_values(self, queryset: QuerySet[Any]) -> QuerySet[Any, Any]:
        renamed = {member.name: F(member.source) for member in self if member.source}
        computed = {member.name: member.sql for member in self if member.sql is not None}
        values: QuerySet[Any, Any] = queryset.annotate(**renamed, **computed).values(*self.names)
        return values

    def as_json(self, instance: Model) -> dict[str, Any]:
        return {member.name: member.get_value(instance) for member in self}

    def build_example(self, **changes: Any) -> dict[str, Any]:
        return {member.name: member.example for member in self} | changes


ID = Member("id", "Unique identifier, assigned by the service.", example=1, field_class="Int64Field")

PET = Members(
    ID,
    Member("name", "The pet's name.", example="Biscuit", field_class="NameField", writable=True),
    Member(
        "categoryId",
        "Identifier of the category that the pet belongs to.",
        example=1,
        field_class="CategoryIdField",
        source="category_id",
        writable=True,
        column="category",
        file_help="a category's name",
    ),
    Member(
        "status",
        "Availability status.",
        example=PetStatus.AVAILABLE.value,
        field_class="PetStatusField",
        writable=True,
        default=PetStatus.AVAILABLE.value,
        file_help="available, pending or sold; available if it is left out",
    ),
)

ORDER = Members(
    ID,
    Member(
        "petId",
        "Identifier of the pet.",
        example=1,
        field_class="Int64Field",
        source="pet_id",
        writable=True,
    ),
    Member(
        "quantity",
        "Always 1: every pet is unique.",
        example=1,
        field_class="IntegerField",
        options={"min_value": 1, "max_value": 1},
        sql=Value(1),
        python=lambda order: 1,
    ),
    Member(
        "status",
        "The status of the order.",
        example=OrderStatus.PLACED.value,
        field_class="ChoiceField",
        options={"choices": OrderStatus.choices},
    ),
    Member(
        "shipDate",
        "The planned or actual time at which the pet leaves the shop, in UTC.",
        example=None,
        field_class="DateTimeField",
        options={"allow_null": True},
        source="ship_date",
    ),
    Member(
        "complete",
        "True once the pet is delivered.",
        example=False,
        field_class="BooleanField",
        sql=Case(When(status=OrderStatus.DELIVERED, then=True), default=False),
        python=lambda order: order.status == OrderStatus.DELIVERED,
    ),
)
