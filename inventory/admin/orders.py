"""Orders in the back office: staff approve, ship, deliver and cancel them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.decorators import display

from accounts.models import Account
from inventory.admin.changelist import row_id
from inventory.admin.order_actions import VERBS, OrderVerb, carry_out
from inventory.admin.pet_actions import label
from inventory.admin.shared import ActingAdmin, steps_of
from inventory.models import LIVE, Order, OrderStatus
from petstore.backoffice.confirmation import Question, confirm
from petstore.backoffice.filters import ChoiceFilter, TimeFilter
from petstore.db.keysets import OneFilterKey

COLOURS: dict[str, str] = {
    OrderStatus.PLACED: "warning",
    OrderStatus.APPROVED: "info",
    OrderStatus.DELIVERED: "success",
    OrderStatus.CANCELLED: "default",
}
SHOWN = ("account", "pet", "status", "ship_date", "created_at", "updated_at")
MOST_ACCOUNTS = 100  # That one search by name follows.


class WaitingFilter(ChoiceFilter, DropdownFilter):
    title = "waiting"
    parameter_name = "waiting"
    offered = (("yes", "Waiting for us"),)

    def condition(self, chosen: str) -> Q:
        return Q(status__in=LIVE)


class PlacedFilter(TimeFilter, DropdownFilter):
    parameter_name = "placed"
    field = "created_at"


@admin.register(Order)
class OrderAdmin(ActingAdmin):
    """Orders are placed by clients. Staff approve, ship, deliver and cancel them."""

    can_add = can_delete = False
    list_display = ["id", "status_badge", "account", "pet", "ship_date", "created_at"]
    list_filter = [("status", ChoicesDropdownFilter), WaitingFilter, PlacedFilter]
    keys = MappingProxyType({("status__exact",): OneFilterKey("id")})
    list_select_related = ["account", "pet"]
    search_fields = ["account__name"]
    search_help_text = "An order's or a pet's id, or a part of an account's name"
    fields = readonly_fields = SHOWN
    change_form_outer_before_template: Any = "admin/inventory/order/next.html"
    row_pages = {"act/<slug:name>/": "act"}
    verbs = VERBS

    @display(description="status", label=COLOURS)
    def status_badge(self, order: Order) -> tuple[str, str]:
        return order.status, order.get_status_display()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save nothing: orders change by their verbs alone."""

    def search(self, request: HttpRequest, rows: QuerySet[Order], term: str) -> QuerySet[Order]:
        """Search by ids and by accounts; accounts are few, so they are found first."""
        accounts = list(Account.objects.filter(name__icontains=term).values_list("pk")[: MOST_ACCOUNTS + 1])
        if len(accounts) > MOST_ACCOUNTS:
            text = f"More than {MOST_ACCOUNTS} accounts have this in their name. Type more of it."
            self.message_user(request, text, messages.WARNING)
        found = Q(account_id__in=[pk for (pk,) in accounts[:MOST_ACCOUNTS]])
        if (pk := row_id(term)) is not None:
            found |= Q(pk=pk) | Q(pet_id=pk)
        return rows.filter(found)

    def beside_form(self, request: HttpRequest, row: Order) -> dict[str, Any]:
        """Return a button for all that may be done now, and the order's history."""
        may = self.has_change_permission(request, row)
        verbs = [
            (reverse("admin:inventory_order_act", args=[row.pk, name]), name, verb)
            for name, verb in VERBS.items()
            if may and row.status in verb.allowed
        ]
        return {
            "badge": {"text": row.get_status_display(), "type": COLOURS[row.status]},
            "verbs": verbs,
            "show_save": False,
            "show_save_and_continue": False,
            "show_close": True,
            "history_title": "History of the order",
            "history": steps_of(row),
        }

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Do something to one order; ask first where it is final or needs to know more."""
        order: Order = self.row(request, object_id, self.has_change_permission)
        if (verb := VERBS.get(name)) is None:
            raise Http404
        back = reverse("admin:inventory_order_change", args=[order.pk])
        question = verb.question or Question(verb.description, verb.description, "The order goes on.")

        def act(given: dict[str, Any]) -> HttpResponse:
            carry_out(self, request, [order], verb, given)
            return HttpResponseRedirect(back)

        return confirm(
            self, request, question, verb.form, act, back=back, rows=[(order.pk, self.in_words(order))]
        )

    def carry_out(
        self, request: HttpRequest, rows: list[Order], verb: OrderVerb, given: dict[str, Any]
    ) -> None:
        carry_out(self, request, rows, verb, given)

    def in_words(self, row: Order) -> str:
        return f"Order {row.pk}: {label(row.pet)} for {row.account}"
