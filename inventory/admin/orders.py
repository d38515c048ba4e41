"""Admin of orders: list, actions, and panels on the pages of accounts and events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.admin import account_panels, events
from accounts.admin.account_panels import Panel
from accounts.admin.base import change_url
from accounts.models import Account
from inventory.admin.shared import (
    COLOURS,
    RowAction,
    RowActionsAdmin,
    label,
    parse_reference,
    status_history,
)
from inventory.admin.status_tabs import StageFilter, example, tabs, with_literals
from inventory.models import LIVE_STATUSES, Order, OrderStatus, Pet, Stage
from petstore.backoffice.changelist import TimeFilter, parse_id
from petstore.backoffice.confirmation import Confirmation, ReasonForm, confirm
from petstore.backoffice.dashboard import list_url
from petstore.backoffice.history import HistoryEntry
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MAX_RESULTS, MIN_VERB_LENGTH, SearchResult
from petstore.db.keysets import OneFilterKey

MAX_ACCOUNTS = 100  # Accounts that a search by name follows.
ON_ACCOUNT = 10  # Orders in the panel of an account.
IN_TIMELINE = 30  # Orders whose history is in the timeline of an account.
A_YEAR = timedelta(days=365)
WAITING = {"approve": Stage.TO_APPROVE, "ship": Stage.TO_SHIP, "deliver": Stage.SHIPPED}
SHIP_DATE_VISIBLE = "Clients see the ship date of their order."


class ShipDateForm(forms.Form):
    ship_date = forms.DateTimeField(
        label="Ship date",
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text="Date and time in UTC, at most a year from now.",
    )

    def clean_ship_date(self) -> datetime:
        ship_date: datetime = self.cleaned_data["ship_date"]
        if abs(ship_date - timezone.now()) > A_YEAR:
            raise ValidationError("This is more than a year from now. Choose another date.")
        return ship_date


@dataclass(frozen=True)
class OrderAction(RowAction):
    allowed: tuple[OrderStatus, ...]
    method: str  # A method of Order that takes `by` and the form's data.
    shipped: bool | None = None  # If set, only for orders with, or without, a ship date.

    def applies_to(self, order: Order) -> bool:
        ship_date_fits = self.shipped is None or self.shipped == (order.ship_date is not None)
        return ship_date_fits and order.status in self.allowed

    def reason_to_skip(self, row: Order) -> tuple[str, str] | None:
        if self.applies_to(row):
            return None
        if row.status in self.allowed:
            date = "a ship date, which can be changed" if row.ship_date else "no ship date yet"
            return f"they have {date}", str(row)
        reason = f"{row.status} orders can't be {self.done}"
        return f"{reason}; approve them first" if row.status == OrderStatus.PLACED else reason, str(row)

    def act(self, row: Order, by: str, given: dict[str, Any]) -> None:
        getattr(row, self.method)(by=by, **given)


ACTIONS = {
    "approve": OrderAction("Approve", "approved", (OrderStatus.PLACED,), "approve"),
    "ship": OrderAction("Ship now", "shipped", (OrderStatus.APPROVED,), "ship", shipped=False),
    "ship_later": OrderAction(
        "Ship on a date...",
        "given a ship date",
        (OrderStatus.APPROVED,),
        "ship",
        shipped=False,
        form=ShipDateForm,
        question=Confirmation("Ship {} on a date", "Set the ship date", SHIP_DATE_VISIBLE),
    ),
    "deliver": OrderAction(
        "Deliver...",
        "delivered",
        (OrderStatus.APPROVED,),
        "deliver",
        question=Confirmation("Deliver {}", "Deliver", "The pet becomes sold. This can't be undone."),
    ),
    "change_ship_date": OrderAction(
        "Change ship date...",
        "given another ship date",
        (OrderStatus.APPROVED,),
        "ship",
        shipped=True,
        form=ShipDateForm,
        question=Confirmation("Change the ship date of {}", "Change the ship date", SHIP_DATE_VISIBLE),
    ),
    "cancel": OrderAction(
        "Cancel...",
        "cancelled",
        LIVE_STATUSES,
        "cancel",
        form=ReasonForm,
        question=Confirmation(
            "Cancel {}",
            "Cancel the order",
            "The pet becomes available again. This can't be undone.",
            danger=True,
        ),
    ),
}


class PlacedFilter(TimeFilter, DropdownFilter):
    parameter_name = "placed"
    field = "created_at"


@admin.register(Order)
class OrderAdmin(RowActionsAdmin):
    """Clients place orders. Staff approve, ship, deliver and cancel them."""

    can_add = can_delete = False
    list_display = ["id", "status_badge", "account", "pet", "ship_date", "created_at"]
    list_filter = [StageFilter, ("status", ChoicesDropdownFilter), PlacedFilter]
    list_before_template: Any = "admin/inventory/order/stages.html"
    keys = MappingProxyType({("status__exact",): OneFilterKey("id")})
    list_select_related = ["account", "pet"]
    search_fields = ["account__name"]
    search_help_text = "The ID of an order or a pet, or part of an account's name"
    fields = readonly_fields = ("account", "pet", "status", "ship_date", "created_at", "updated_at")
    change_form_outer_before_template: Any = "admin/inventory/order/next.html"
    row_pages = {"act/<slug:name>/": "act"}
    row_actions = ACTIONS

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return super().changelist_view(request, (extra_context or {}) | {"tabs": tabs(request)})

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer on a tab only the actions that apply to its orders."""
        actions, order = super().get_actions(request), example(request)
        return {
            name: act for name, act in actions.items() if order is None or ACTIONS[name].applies_to(order)
        }

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Do nothing: orders change only by actions."""

    def search(self, request: HttpRequest, rows: QuerySet[Order], term: str) -> QuerySet[Order]:
        named = Account.objects.filter(name__search_key__contains=term)
        accounts = list(named.values_list("pk")[: MAX_ACCOUNTS + 1])
        if len(accounts) > MAX_ACCOUNTS:
            text = f"More than {MAX_ACCOUNTS} account names contain this. Type more of the name."
            self.message_user(request, text, messages.WARNING)
        found = Q(account_id__in=[pk for (pk,) in accounts[:MAX_ACCOUNTS]])
        if (pk := parse_id(term)) is not None:
            found |= Q(pk=pk) | Q(pet_id=pk)
        return rows.filter(found)

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        """Find an order by ID, the actions that apply to it, and orders that wait for an action."""
        wanted, pk = parse_reference(term, "order")
        acts = request.user.has_perm("inventory.change_order")
        for order in Order.objects.filter(pk=pk).select_related("account", "pet") if pk is not None else ():
            about = f"{order.get_status_display()}, {label(order.pet)} for {order.account}"
            if not wanted:
                yield SearchResult(1, "receipt_long", f"Order {pk}", about, change_url(order))
            # "ship" and "ship_later" share a word and a page.
            words = dict.fromkeys(
                name.split("_")[0] for name, action in ACTIONS.items() if action.applies_to(order)
            )
            for word in words:
                if acts and word.startswith(wanted):
                    title = f"{word.capitalize()} order {pk}"
                    yield SearchResult(1 if wanted else 2, "receipt_long", title, about, change_url(order))
        action = term.lower().removesuffix("s").removesuffix("order").strip()
        for word, stage in WAITING.items():
            if acts and len(action) >= MIN_VERB_LENGTH and word.startswith(action):
                orders = list_url("inventory_order", stage=stage)
                yield SearchResult(1, "receipt_long", f"Orders to {word}", "", orders)
                found = Order.objects.filter(with_literals(stage.condition)).select_related(
                    "account", "pet"
                )
                for order in found.order_by("id")[:MAX_RESULTS]:
                    about = f"{label(order.pet)} for {order.account}"
                    title = f"{word.capitalize()} order {order.pk}"
                    yield SearchResult(2, "receipt_long", title, about, change_url(order))

    def form_context(self, request: HttpRequest, row: Order) -> dict[str, Any]:
        may = self.has_change_permission(request, row)
        row_actions = [
            (reverse("admin:inventory_order_act", args=[row.pk, name]), name, action)
            for name, action in ACTIONS.items()
            if may and action.applies_to(row)
        ]
        return {
            "badge": {"text": status_text(row), "type": COLOURS[row.status]},
            "row_actions": row_actions,
            "show_save": False,
            "show_save_and_continue": False,
            "show_close": True,
            "history_title": "History of the order",
            "history": status_history(row),
        }

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Confirm and perform an action on one order."""
        order: Order = self.row(request, object_id, self.has_change_permission)
        if (action := ACTIONS.get(name)) is None:
            raise Http404
        back = change_url(order)
        plain = Confirmation(
            f"{action.description}: {{}}", action.description, "It moves on to its next status."
        )
        question = (action.question or plain).about(str(order))

        def act(given: dict[str, Any]) -> HttpResponse:
            self.carry_out(request, [order], action, given)
            return HttpResponseRedirect(back)

        return confirm(
            self, request, question, action.form, act, back=back, rows=[(order.pk, self.describe(order))]
        )

    def subject(self, rows: list[Order]) -> str:
        return f"{str(rows[0]).capitalize()} is" if len(rows) == 1 else super().subject(rows)

    def describe(self, row: Order) -> str:
        return f"Order {row.pk}: {label(row.pet)} for {row.account}"


def status_text(order: Order) -> str:
    status = str(order.get_status_display())
    if order.status != OrderStatus.APPROVED or order.ship_date is None:
        return status
    ships = "shipped" if order.ship_date <= timezone.now() else "ships"
    return f"{status}, {ships} {order.ship_date:%Y-%m-%d}"


# --- On the pages of an account and of an event


def orders_of(account: Account, request: HttpRequest) -> Panel | None:
    if not may_view(request, "inventory.order"):
        return None
    latest = Order.objects.filter(account=account).newest_first()
    orders = list(latest.prefetch_related("events").select_related("pet")[:IN_TIMELINE])
    entries = [
        HistoryEntry(
            event.at,
            f"Order {order.pk}: "
            f"{event.to_status if event.to_status != event.from_status else 'ship date set'}",
            event.by,
            event.reason,
            link=change_url(order),
            icon="receipt_long",
        )
        for order in orders
        for event in order.events.all()
    ]
    return Panel("admin/inventory/account_orders.html", orders[:ON_ACCOUNT], entries)


def order_and_pet(account_id: int, data: dict[str, Any]) -> Iterator[Model]:
    if "order" in data:
        for order in Order.objects.filter(pk=data["order"]["id"]).select_related("pet"):
            yield from (order, order.pet)
    if "pet" in data:
        yield from Pet.objects.filter(pk=data["pet"]["id"])


account_panels.panel_factories.append(orders_of)
events.subject_finders.append(order_and_pet)
