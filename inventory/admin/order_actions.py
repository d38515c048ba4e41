"""What staff do to orders, and what they are asked before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms

from inventory.admin.confirmation import Question, ReasonForm, ShipDateForm
from inventory.models import LIVE, Order, OrderStatus


@dataclass(frozen=True)
class Verb:
    """What staff do to orders."""

    description: str  # On buttons and in the list of actions.
    done: str
    allowed: tuple[OrderStatus, ...]
    act: Callable[[Order, str, dict[str, Any]], None]  # The order, who does it, what was filled in.
    form: type[forms.Form] = forms.Form
    question: Question | None = None  # Asked first.


VERBS = {
    "approve": Verb(
        "Approve", "approved", (OrderStatus.PLACED,), lambda order, by, _: order.approve(by=by)
    ),
    "ship": Verb("Ship now", "shipped", (OrderStatus.APPROVED,), lambda order, by, _: order.ship(by=by)),
    "ship_later": Verb(
        "Ship on a date...",
        "given a ship date",
        (OrderStatus.APPROVED,),
        lambda order, by, given: order.ship(by=by, ship_date=given["ship_date"]),
        ShipDateForm,
        Question("Ship on a date", "Set the ship date", "Clients see the ship date in their order."),
    ),
    "deliver": Verb(
        "Deliver...",
        "delivered",
        (OrderStatus.APPROVED,),
        lambda order, by, _: order.deliver(by=by),
        question=Question(
            "Deliver", "Deliver", "The animal is handed over and sold. A delivered order is final."
        ),
    ),
    "cancel": Verb(
        "Cancel...",
        "cancelled",
        LIVE,
        lambda order, by, given: order.cancel(by=by, reason=given["reason"]),
        ReasonForm,
        Question(
            "Cancel",
            "Cancel the order",
            "The animal is available to others again. A cancelled order is final.",
            danger=True,
        ),
    ),
}


def why_not(order: Order, verb: Verb) -> str:
    """Return why an order can't be approved, shipped, delivered or cancelled."""
    reason = f"{order.status} orders can't be {verb.done}"
    return f"{reason}; approve them first" if order.status == OrderStatus.PLACED else reason
