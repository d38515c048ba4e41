"""What staff do to orders, what they are asked first, and what they are told of the outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import Error, transaction
from django.http import HttpRequest
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from inventory.admin.pet_actions import NAMES_SHOWN, Outcome
from inventory.admin.shared import Verb, staff
from inventory.models import LIVE, IllegalMoveError, Order, OrderStatus
from petstore.backoffice.confirmation import Question, ReasonForm
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.wording import counted

logger = logging.getLogger(__name__)

A_YEAR = timedelta(days=365)


class ShipDateForm(forms.Form):
    ship_date = forms.DateTimeField(
        label="Leaves at",
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text="Date and time in UTC, within a year from now.",
    )

    def clean_ship_date(self) -> datetime:
        """Refuse a date that is likely mistyped."""
        ship_date: datetime = self.cleaned_data["ship_date"]
        if abs(ship_date - timezone.now()) > A_YEAR:
            raise ValidationError("This is more than a year from now. Choose another date.")
        return ship_date


@dataclass(frozen=True, kw_only=True)
class OrderVerb(Verb):
    allowed: tuple[OrderStatus, ...]
    act: Callable[[Order, str, dict[str, Any]], None]  # The order, who does it, what was filled in.


VERBS = {
    "approve": OrderVerb(
        description="Approve",
        done="approved",
        allowed=(OrderStatus.PLACED,),
        act=lambda order, by, _: order.approve(by=by),
    ),
    "ship": OrderVerb(
        description="Ship now",
        done="shipped",
        allowed=(OrderStatus.APPROVED,),
        act=lambda order, by, _: order.ship(by=by),
    ),
    "ship_later": OrderVerb(
        description="Ship on a date...",
        done="given a ship date",
        allowed=(OrderStatus.APPROVED,),
        act=lambda order, by, given: order.ship(by=by, ship_date=given["ship_date"]),
        form=ShipDateForm,
        question=Question(
            "Ship on a date", "Set the ship date", "Clients see the ship date in their order."
        ),
    ),
    "deliver": OrderVerb(
        description="Deliver...",
        done="delivered",
        allowed=(OrderStatus.APPROVED,),
        act=lambda order, by, _: order.deliver(by=by),
        question=Question(
            "Deliver", "Deliver", "The animal is handed over and sold. A delivered order is final."
        ),
    ),
    "cancel": OrderVerb(
        description="Cancel...",
        done="cancelled",
        allowed=LIVE,
        act=lambda order, by, given: order.cancel(by=by, reason=given["reason"]),
        form=ReasonForm,
        question=Question(
            "Cancel",
            "Cancel the order",
            "The animal is available to others again. A cancelled order is final.",
            danger=True,
        ),
    ),
}


def why_not(order: Order, verb: OrderVerb) -> str:
    """Return why an order can't be approved, shipped, delivered or cancelled."""
    reason = f"{order.status} orders can't be {verb.done}"
    return f"{reason}; approve them first" if order.status == OrderStatus.PLACED else reason


def carry_out(
    pages: PetstoreModelAdmin,
    request: HttpRequest,
    orders: list[Order],
    verb: OrderVerb,
    given: dict[str, Any],
) -> None:
    """Do it to each order that allows it, each in a transaction; say what was done, and what was not."""
    outcome, done = Outcome(), []
    for place, order in enumerate(orders):
        try:
            why = attempt(pages, request, order, verb, given)
        except Error:
            logger.exception("The database failed while %s was to be %s.", order, verb.done)
            pages.message_user(request, stopped_at(orders[place:], verb), messages.ERROR)
            break
        if why:
            outcome.skip(why, str(order))
        else:
            done.append(order)
    if done:
        what = f"{str(done[0]).capitalize()} is" if len(done) == 1 else counted(len(done), "order")
        pages.message_user(request, f"{what} {verb.done}.", messages.SUCCESS)
    for sentence in outcome.sentences():
        pages.message_user(request, sentence, messages.WARNING)


def attempt(
    pages: PetstoreModelAdmin, request: HttpRequest, order: Order, verb: OrderVerb, given: dict[str, Any]
) -> str:
    """Do it to one order and record it; return why it can't be done, if it can't."""
    try:
        with transaction.atomic():
            # As it is now: a client may have cancelled it since the page was shown.
            order.refresh_from_db(from_queryset=Order.objects.select_for_update())
            if order.status == OrderStatus.CANCELLED:  # A second time would pass in silence.
                raise IllegalMoveError("")
            verb.act(order, staff(request), given)
            why = f": {given['reason']}" if given.get("reason") else "."
            pages.log_change(request, order, f"{verb.done.capitalize()}{why}")
    except IllegalMoveError:
        order.refresh_from_db(fields=["status"])
        return why_not(order, verb)
    return ""


def stopped_at(left: list[Order], verb: OrderVerb) -> str:
    """Return the sentences about what a failure of the database has left undone."""
    first, *others = left
    text = f"The database failed at {first}: check whether it is {verb.done}."
    if not others:
        return text
    names = ", ".join(str(order) for order in others[:NAMES_SHOWN])
    more = f" and {len(others) - NAMES_SHOWN} more" if len(others) > NAMES_SHOWN else ""
    return f"{text} Nothing was done to {counted(len(others), 'other order')} ({names}{more}): try again."
