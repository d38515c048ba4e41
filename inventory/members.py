"""The members of the API's resources: each is declared once, here.

From this follow the SQL of lists, `as_json` of instances and so the events, the serializers, the examples
of the OpenAPI document, and the columns of import and export ("Adding a field" in CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, Expression, F, Model, QuerySet, Value, When

from inventory.status import OrderStatus, PetStatus

REQUIRED = object()  # As a default: a client must send the member.


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member of a resource: where it comes from, what it may be, and what documents say about it."""

    name: str
    help_text: str
    example: Any
    rule: str  # The class in fields.py, or of DRF, that checks and documents it.
    options: Mapping[str, Any] = field(default_factory=dict)  # The arguments of `rule`.
    source: str = ""  # The model's attribute, if it isn't called like the member.
    sql: Expression | None = None  # Of a computed member, beside the same in Python.
    python: Callable[[Any], Any] | None = None
    sent: bool = False  # Whether clients send it.
    sent_rule: str = ""  # If what they send is checked more strictly.
    default: Any = REQUIRED  # Of a member that is sent.
    column: str = ""  # Of a relation: the column of files that has the related row's name.
    in_files: str = ""  # What a file may say, in words.

    @property
    def attribute(self) -> str:
        return self.source or self.name

    @property
    def model_field(self) -> str:
        """The name of the model's field, as forms have it."""
        return self.attribute.removesuffix("_id")

    @property
    def columns(self) -> list[str]:
        """The columns of files that may say it, the one that is written first."""
        return [name for name in (self.column, self.name) if name]

    @property
    def expression(self) -> Any:
        """What a queryset is annotated with; None for a column of the same name."""
        if self.sql is not None:
            return self.sql
        return F(self.source) if self.source else None

    def read(self, row: Model) -> Any:
        return self.python(row) if self.python is not None else getattr(row, self.attribute)


class Members:
    """The members of a resource, in the order of the document."""

    def __init__(self, *members: Member) -> None:
        self.members = members
        self.sent = tuple(member for member in members if member.sent)  # In the order of a request's body.

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @property
    def form_fields(self) -> list[str]:
        """The model's fields that staff may edit: what clients send."""
        return [member.model_field for member in self.sent]

    def values(self, rows: QuerySet[Any]) -> QuerySet[Any, Any]:
        """Return the rows as mappings of the members."""
        computed = {member.name: member.expression for member in self if member.expression is not None}
        shown: QuerySet[Any, Any] = rows.annotate(**computed).values(*self.names)
        return shown

    def as_json(self, row: Model) -> dict[str, Any]:
        """Return the same of an instance."""
        return {member.name: member.read(row) for member in self.members}

    def example(self, **changes: Any) -> dict[str, Any]:
        return {member.name: member.example for member in self} | changes


ID = Member(
    name="id",
    help_text="Unique identifier, assigned by the service.",
    example=1,
    rule="Int64Field",
)

PET = Members(
    ID,
    Member(
        name="name",
        help_text="The pet's name.",
        example="Biscuit",
        rule="NameField",
        sent=True,
    ),
    Member(
        name="categoryId",
        help_text="Identifier of the category that the pet belongs to.",
        example=1,
        rule="Int64Field",
        source="category_id",
        sent=True,
        sent_rule="CategoryIdField",
        column="category",
        in_files="a category's name",
    ),
    Member(
        name="status",
        help_text="Availability status.",
        example=PetStatus.AVAILABLE.value,
        rule="StatusField",
        sent=True,
        default=PetStatus.AVAILABLE.value,
        in_files="available, pending or sold; available if it is left out",
    ),
)

ORDER = Members(
    ID,
    Member(
        name="petId",
        help_text="Identifier of the pet.",
        example=1,
        rule="Int64Field",
        source="pet_id",
        sent=True,
    ),
    Member(
        name="quantity",
        help_text="Always 1: every pet is unique.",
        example=1,
        rule="IntegerField",
        options={"min_value": 1, "max_value": 1},
        sql=Value(1),
        python=lambda order: 1,
    ),
    Member(
        name="status",
        help_text="Where the order stands.",
        example=OrderStatus.PLACED.value,
        rule="ChoiceField",
        options={"choices": OrderStatus.choices},
    ),
    Member(
        name="shipDate",
        help_text="When the pet leaves, in UTC.",
        example=None,
        rule="DateTimeField",
        options={"allow_null": True},
        source="ship_date",
    ),
    Member(
        name="complete",
        help_text="True once the pet is delivered.",
        example=False,
        rule="BooleanField",
        sql=Case(When(status=OrderStatus.DELIVERED, then=True), default=False),
        python=lambda order: order.status == OrderStatus.DELIVERED,
    ),
)
