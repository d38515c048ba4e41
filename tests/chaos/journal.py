"""What the customers sent and what was acknowledged."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Account(NamedTuple):
    """A customer. Limits are unique, so headers identify the account."""

    name: str
    key: str
    per_minute: int
    per_day: int
    limited_by: str = ""  # `minute` or `day`: the limit that it reaches.

    @property
    def limits(self) -> set[str]:
        """Its limits as in headers."""
        return {str(self.per_minute), str(self.per_day)}


class OrderState(StrEnum):
    """The acknowledged status of an order."""

    PLACED = "placed"
    CANCELLED = "cancelled"
    UNKNOWN = "placed or cancelled"  # A cancellation is pending, or its outcome unknown.


@dataclass
class Order:
    """An acknowledged order."""

    number: int
    pet: int
    account: Account
    state: OrderState = OrderState.PLACED


@dataclass
class Journal:
    """The records of one account."""

    account: Account
    ordered_pets: Counter[int] = field(default_factory=Counter)  # Attempts to order each.
    orders: dict[int, Order] = field(default_factory=dict)
    own_pets: set[int] = field(default_factory=set)  # Not ordered by others.
    free_pets: deque[int] = field(default_factory=deque)  # Of these, the ones that can be ordered.
    sent: list[float] = field(default_factory=list)  # When each request was sent.
    account_reads: list[float] = field(default_factory=list)  # When it read the account; not in `sent`.
    admitted: Counter[tuple[str, int]] = field(default_factory=Counter)  # By window and its end.

    def open_orders(self) -> list[Order]:
        return [order for order in self.orders.values() if order.state is OrderState.PLACED]
