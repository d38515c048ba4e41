"""The resources of the API, with names in snake_case and date-times as `datetime`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_type_hints
from urllib.parse import parse_qsl, urlsplit

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
    """`data` is the JSON of the API. `pet` and `order` are as they were at the time of the event."""

    id: int
    type: str
    created_at: datetime
    data: dict[str, Any]

    @property
    def pet(self) -> Pet | None:
        return decode(Pet, self.data.get("pet"))

    @property
    def order(self) -> Order | None:
        return decode(Order, self.data.get("order"))


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

    def __init__(self, rows: Iterable[T], headers: Mapping[str, str]) -> None:
        super().__init__(rows)
        self._etag = headers.get("ETag", "")
        link = re.search(r'<([^>]*)>\s*;\s*rel="next"', headers.get("Link", ""))
        # Only the query, so that the key is never sent to another host than that of `base_url`.
        self._next_query: dict[str, Any] = dict(parse_qsl(urlsplit(link[1]).query)) if link else {}
        self.next_cursor: str | None = self._next_query.get("cursor")


camel_case = cache(lambda name: re.sub(r"_([a-z])", lambda found: found[1].upper(), name))
get_fields = cache(get_type_hints)


def decode(kind: type[T], value: Any) -> T:
    """Convert a JSON value to a type used in this module. Ignores unknown fields."""
    expected: Any = (get_args(kind) or [kind])[0]  # X of `X | None`.
    if value is not None and expected is datetime:
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    elif value is not None and hasattr(expected, "__dataclass_fields__"):
        hints = get_fields(expected).items()
        value = expected(**{name: decode(hint, value.get(camel_case(name))) for name, hint in hints})
    return cast("T", value)


def encode(**fields: Any) -> dict[str, Any]:
    """Build a query or JSON object, without the arguments that are None. A naive datetime is local."""
    return {
        camel_case(name): value.astimezone().isoformat() if isinstance(value, datetime) else value
        for name, value in fields.items()
        if value is not None
    }
