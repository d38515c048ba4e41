"""Orders in the back office: staff approve, ship, deliver and cancel them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.decorators import display

from accounts.models import Account
from inventory.admin.changelist import BigTableAdmin, row_id
from inventory.admin.confirmation import Question, answered, ask
from inventory.admin.order_actions import VERBS, Verb, why_not
from inventory.admin.shared import LastEventsInline, counted, staff
from inventory.models import LIVE, IllegalMoveError, Order, OrderStatus
from inventory.models.events import OrderEvent
from inventory.transitions import label, why_skipped
from petstore.db.keysets import OneFilterKey

COLOURS: dict[str, str] = {
    OrderStatus.PLACED: "warning",
    OrderStatus.APPROVED: "info",
    OrderStatus.DELIVERED: "success",
    OrderStatus.CANCELLED: "default",
}
SHOWN = ("account", "pet", "status", "ship_date", "created_at", "updated_at")
MOST_ACCOUNTS = 100  # That one search by name follows.


def described(orders: Sequence[Order]) -> list[tuple[int, str]]:
    """Return the id of each order, and its words for the page that asks."""
    return [(order.pk, f"Order {order.pk}: {label(order.pet)} for {order.account}") for order in orders]


class WaitingFilter(DropdownFilter):
    """Orders that staff have something to do for."""

    title = "waiting"
    parameter_name = "waiting"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the one choice."""
        return [("yes", "Waiting for us")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Order]) -> QuerySet[Order]:
        """Return the orders of the choice."""
        return queryset.filter(status__in=LIVE) if self.value() == "yes" else queryset


class TimeFilter(DropdownFilter):
    """Orders that were placed lately."""

    title = "time"
    parameter_name = "placed"
    days = {"1": "In the last 24 hours", "7": "In the last 7 days", "30": "In the last 30 days"}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return list(self.days.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Order]) -> QuerySet[Order]:
        """Return the orders of the choice."""
        chosen = self.value()
        if chosen not in self.days:
            return queryset
        return queryset.filter(created_at__gte=timezone.now() - timedelta(days=int(chosen)))


class OrderEventInline(LastEventsInline):
    """What became of the order."""

    model = OrderEvent
    verbose_name_plural = "history of the order"


@admin.register(Order)
class OrderAdmin(BigTableAdmin):
    """Orders are placed by clients. Staff approve, ship, deliver and cancel them."""

    inlines = [OrderEventInline]
    list_display = ["id", "status_badge", "account", "pet", "ship_date", "created_at"]
    list_filter = [("status", ChoicesDropdownFilter), WaitingFilter, TimeFilter]
    keys = MappingProxyType({("status__exact",): OneFilterKey("id")})
    list_select_related = ["account", "pet"]
    search_fields = ["account__name"]
    search_help_text = "An order's or a pet's id, or a part of an account's name"
    fields = readonly_fields = SHOWN
    change_form_outer_before_template: Any = "admin/inventory/order/next.html"
    actions = ["approve", "ship", "ship_later", "deliver", "cancel"]

    @display(description="status", label=COLOURS)
    def status_badge(self, order: Order) -> tuple[str, str]:
        """Return the status, for its colour, and its word."""
        return order.status, order.get_status_display()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Forbid: clients place orders."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid: an order is cancelled, and stays on record."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save nothing: orders change by their verbs alone."""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by ids and by accounts; accounts are few, so they are found first."""
        term = search_term.strip()
        if not term:
            return queryset, False
        accounts = list(Account.objects.filter(name__icontains=term).values_list("pk")[: MOST_ACCOUNTS + 1])
        if len(accounts) > MOST_ACCOUNTS:
            text = f"More than {MOST_ACCOUNTS} accounts have this in their name. Type more of it."
            self.message_user(request, text, messages.WARNING)
        found = Q(account_id__in=[pk for (pk,) in accounts[:MOST_ACCOUNTS]])
        if (pk := row_id(term)) is not None:
            found |= Q(pk=pk) | Q(pet_id=pk)
        return queryset.filter(found), False

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Show the order with a button for all that may be done now."""
        order: Order = context["original"]
        may = self.has_change_permission(request, order)
        context["badge"] = {"text": order.get_status_display(), "type": COLOURS[order.status]}
        context["verbs"] = [
            (reverse("admin:inventory_order_act", args=[order.pk, name]), name, verb)
            for name, verb in VERBS.items()
            if may and order.status in verb.allowed
        ]
        context |= {"show_save": False, "show_save_and_continue": False, "show_close": True}
        return super().render_change_form(request, context, *args, **kwargs)

    def get_urls(self) -> list[URLPattern]:
        """Add the pages of the verbs."""
        view = self.admin_site.admin_view(self.act_view)
        return [
            path("<path:object_id>/act/<slug:name>/", view, name="inventory_order_act"),
            *super().get_urls(),
        ]

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Do something to one order; ask first where it is final or needs to know more."""
        order, verb = self.get_object(request, unquote(object_id)), VERBS.get(name)
        if order is None or verb is None:
            raise Http404
        if not self.has_change_permission(request, order):
            raise PermissionDenied
        back = reverse("admin:inventory_order_change", args=[order.pk])
        if verb.question is None and request.method == "POST":
            form = verb.form(request.POST)
        else:
            form = answered(request, verb.form)
        if not form.is_valid():
            question = verb.question or Question(verb.description, verb.description, "The order goes on.")
            return ask(self, request, question, form, described([order]), back=back)
        self.act(request, [order], verb, form.cleaned_data)
        return HttpResponseRedirect(back)

    @admin.action(description=VERBS["approve"].description, permissions=["change"])
    def approve(self, request: HttpRequest, orders: QuerySet[Order]) -> HttpResponse | None:
        """Accept the orders."""
        return self.act_on_list(request, orders, "approve")

    @admin.action(description=VERBS["ship"].description, permissions=["change"])
    def ship(self, request: HttpRequest, orders: QuerySet[Order]) -> HttpResponse | None:
        """Note that the animals leave now."""
        return self.act_on_list(request, orders, "ship")

    @admin.action(description=VERBS["ship_later"].description, permissions=["change"])
    def ship_later(self, request: HttpRequest, orders: QuerySet[Order]) -> HttpResponse | None:
        """Note when the animals leave."""
        return self.act_on_list(request, orders, "ship_later")

    @admin.action(description=VERBS["deliver"].description, permissions=["change"])
    def deliver(self, request: HttpRequest, orders: QuerySet[Order]) -> HttpResponse | None:
        """Hand the animals over."""
        return self.act_on_list(request, orders, "deliver")

    @admin.action(description=VERBS["cancel"].description, permissions=["change"])
    def cancel(self, request: HttpRequest, orders: QuerySet[Order]) -> HttpResponse | None:
        """Give the animals free."""
        return self.act_on_list(request, orders, "cancel")

    def act_on_list(self, request: HttpRequest, orders: QuerySet[Order], name: str) -> HttpResponse | None:
        """Do it to the chosen orders; ask first where one order would be asked about."""
        verb, chosen = VERBS[name], list(orders)
        form = answered(request, verb.form) if verb.question else verb.form({})
        if verb.question and not form.is_valid():
            back = request.get_full_path()
            return ask(self, request, verb.question, form, described(chosen), back=back, action=name)
        self.act(request, chosen, verb, form.cleaned_data if form.is_valid() else {})
        return None

    def act(self, request: HttpRequest, orders: list[Order], verb: Verb, given: dict[str, Any]) -> None:
        """Do it to each order that allows it, each in a transaction; say which were skipped, and why."""
        done = []
        skipped: dict[str, list[str]] = {}
        for order in orders:
            try:
                with transaction.atomic():
                    # As it is now: a client may have cancelled it since the page was shown.
                    order.refresh_from_db(from_queryset=Order.objects.select_for_update())
                    if order.status == OrderStatus.CANCELLED:  # A second time would pass in silence.
                        raise IllegalMoveError("")
                    verb.act(order, staff(request), given)
                    reason = given.get("reason")
                    self.log_change(
                        request, order, f"{verb.done.capitalize()}{f': {reason}' if reason else '.'}"
                    )
                done.append(order)
            except IllegalMoveError:
                order.refresh_from_db(fields=["status"])
                skipped.setdefault(why_not(order, verb), []).append(str(order))
        if len(done) == 1:
            self.message_user(request, f"{str(done[0]).capitalize()} is {verb.done}.", messages.SUCCESS)
        elif done:
            self.message_user(request, f"{counted(len(done), 'order')} {verb.done}.", messages.SUCCESS)
        for why, rows in skipped.items():
            self.message_user(request, why_skipped(why, rows), messages.WARNING)
