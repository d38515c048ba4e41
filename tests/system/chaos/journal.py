"""What the customers sent, and what they were told: the other side of every check."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Account(NamedTuple):
    """A customer of the service. No two have the same numbers, so that headers tell whose they are."""

    name: str
    key: str
    per_minute: int
    per_day: int
    limited_by: str = ""  # `minute` or `day`: the limit that it reaches.

    @property
    def numbers(self) -> set[str]:
        """Return its limits as headers say them."""
        return {str(self.per_minute), str(self.per_day)}


class OrderState(StrEnum):
    """What the service has acknowledged of an order."""

    PLACED = "placed"
    CANCELLED = "cancelled"
    UNKNOWN = "placed or cancelled"  # A request to cancel it is under way, or nobody knows what it did.


@dataclass
class Order:
    """An order that the service has acknowledged."""

    number: int
    pet: int
    account: Account
    state: OrderState = OrderState.PLACED


@dataclass
class Journal:
    """What one account knows."""

    account: Account
    ordered_pets: Counter[int] = field(default_factory=Counter)  # How often it tried to order each.
    orders: dict[int, Order] = field(default_factory=dict)
    own_pets: set[int] = field(default_factory=set)  # That nobody else orders.
    free_pets: deque[int] = field(default_factory=deque)  # Of these, the ones that can be ordered.
    sent: deque[float] = field(default_factory=deque)  # When each request was sent.
    looked: deque[float] = field(default_factory=deque)  # When it looked at the account: not among `sent`.
    charged: Counter[tuple[str, int]] = field(default_factory=Counter)  # Admitted, by window and its end.

    def open_orders(self) -> list[Order]:
        return [order for order in self.orders.values() if order.state is OrderState.PLACED]
