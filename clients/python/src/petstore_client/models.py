"""The resources of the API, with names in snake_case and date-times as `datetime`."""

import dataclasses
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

PetStatus = Literal["available", "pending", "sold"]
OrderStatus = Literal["placed", "approved", "delivered", "cancelled"]
Plan = Literal["free", "pro", "business", "enterprise"]
Scope = Literal["pets:read", "pets:write", "orders:read", "orders:write", "events:read"]

T = TypeVar("T")


@dataclass(frozen=True)
class NewPet:
    """A pet to create. Without a status it is `available`."""

    name: str
    category_id: int
    status: PetStatus | None = None


@dataclass(frozen=True)
class Pet:
    id: int
    name: str
    category_id: int
    status: PetStatus


@dataclass(frozen=True)
class Category:
    id: int
    name: str
    description: str


@dataclass(frozen=True)
class Order:
    id: int
    pet_id: int
    quantity: int
    status: OrderStatus
    ship_date: datetime | None
    complete: bool


@dataclass(frozen=True)
class Event:
    """`data` is the JSON of the API, with its names in camelCase."""

    id: int
    type: str
    created_at: datetime
    data: dict[str, Any]

    @property
    def pet(self) -> Pet | None:
        """The pet at the time of the event, for `pet.*`."""
        pet: Pet | None = decode(Pet, self.data.get("pet"))
        return pet

    @property
    def order(self) -> Order | None:
        """The order at the time of the event, for `order.*`."""
        order: Order | None = decode(Order, self.data.get("order"))
        return order


@dataclass(frozen=True)
class Account:
    id: str
    name: str
    plan: Plan
    created_at: datetime


@dataclass(frozen=True)
class Key:
    id: str
    name: str
    scopes: list[Scope]
    allowed_networks: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True)
class QuotaWindow:
    limit: int
    used: int
    remaining: int
    resets_at: datetime


@dataclass(frozen=True)
class Quota:
    minute: QuotaWindow
    day: QuotaWindow


@dataclass(frozen=True)
class Ban:
    until: datetime


@dataclass(frozen=True)
class AccountOverview:
    account: Account
    key: Key
    quota: Quota
    ban: Ban | None


class Page(list[T], Generic[T]):
    """The rows of a page. `next_cursor` gets the next one; it is None on the last page of a list."""

    def __init__(self, rows: Iterable[T], next_cursor: str | None) -> None:
        super().__init__(rows)
        self.next_cursor = next_cursor


def camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


@cache
def get_fields(model: type) -> list[tuple[str, str, Any]]:
    """List each field's name in Python, its name in JSON, and its type."""
    hints = get_type_hints(model)
    return [(field.name, camel_case(field.name), hints[field.name]) for field in dataclasses.fields(model)]


def decode(kind: Any, value: Any) -> Any:
    """Convert a JSON value to a type used in this module. Ignores unknown members."""
    if value is None:
        return None
    if get_origin(kind) in (Union, types.UnionType):
        return decode(get_args(kind)[0], value)  # Always `X | None`.
    if get_origin(kind) is list:
        return [decode(get_args(kind)[0], item) for item in value]
    if kind is datetime:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return kind(**{name: decode(hint, value.get(key)) for name, key, hint in get_fields(kind)})
    return value
