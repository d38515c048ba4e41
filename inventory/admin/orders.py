"""Admin of orders, with their panels on the pages of accounts and events."""

from collections.abc import Iterator
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IS_POPUP_VAR, IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.template.loader import render_to_string
from django.utils import timezone
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter

from accounts.admin import account_panels, events
from accounts.admin.account_panels import Panel
from accounts.models import Account
from inventory.admin.base import (
    STATUS_COLOURS,
    RowAction,
    describe_pet,
    get_status_history,
    parse_reference,
    stage_badge,
)
from inventory.admin.status_tabs import StageFilter, build_tabs
from inventory.models import Order, Pet, PetStatus, Stage, TransitionError
from inventory.status import inline_values
from petstore.api.int64 import parse_id
from petstore.audit.forms import ActionForm, ReasonForm
from petstore.backoffice.changelist import LargeTableMixin, TimeFilter
from petstore.backoffice.confirmation import ActionFormsMixin
from petstore.backoffice.dashboard import list_url
from petstore.backoffice.model_admin import change_url
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MAX_RESULTS, MIN_VERB_LENGTH, SearchResult
from petstore.db.keysets import OneFilterKey

BUTTONS_TEMPLATE = "admin/inventory/order/buttons.html"
ORDER_ICON = "receipt_long"
MAX_MATCHING_ACCOUNTS = 100  # In a search by the name of the account.
MAX_ORDERS_IN_PANEL = 10
MAX_ORDERS_IN_TIMELINE = 30
MAX_SHIP_DATE_DISTANCE = timedelta(days=365)
WAITING_STAGES = {"approve": Stage.TO_APPROVE, "ship": Stage.TO_SHIP, "deliver": Stage.SHIPPED}


class ShipDateForm(ActionForm):
    title = "Ship {} on a date"
    button = "Set the ship date"
    warning = "The client can see the date."
    ship_date = forms.DateTimeField(
        label="Ship date",
        widget=forms.DateTimeInput({"type": "datetime-local"}),
        help_text="Date and time in UTC, at most a year from now.",
    )

    def clean_ship_date(self) -> datetime:
        ship_date: datetime = self.cleaned_data["ship_date"]
        if abs(ship_date - timezone.now()) > MAX_SHIP_DATE_DISTANCE:
            raise ValidationError("The date must be at most a year from now. Choose another one.")
        return ship_date


class DeliverForm(ActionForm):
    title = "Deliver {}"
    button = "Deliver"
    warning = "Delivered pets are sold. This can't be undone."


class CancelForm(ReasonForm):
    title = button = "Cancel {}"
    warning = "Pets of cancelled orders become available again. This can't be undone."
    danger = True


class ReturnForm(ReasonForm):
    title = button = "Return {}"
    warning = "Returned pets become available again. The API status of their orders stays delivered."


# --- Actions, which the list runs on several orders, and `act_view` on one


class OrderAction(RowAction):
    """An action on the orders whose stage has it."""

    def check(self, row: Order) -> None:
        if self not in ACTIONS[row.stage]:
            raise TransitionError(f"Order {row.pk} is {row.stage.label.lower()}.")

    def get_audit_action(self, row: Order) -> str:
        return row.stage


approve = OrderAction("approve", "Approve", Order.approve, done="approved")
ship = OrderAction("ship", "Ship now", Order.ship, done="shipped")
ship_later = OrderAction("ship_later", "Ship on a date...", Order.ship, done="scheduled", form=ShipDateForm)
deliver = OrderAction("deliver", "Deliver...", Order.deliver, done="delivered", form=DeliverForm)
reschedule = OrderAction(
    "reschedule", "Change ship date...", Order.ship, done="rescheduled", form=ShipDateForm
)
cancel = OrderAction("cancel", "Cancel...", Order.cancel, done="cancelled", form=CancelForm)
return_pet = OrderAction("return_pet", "Return...", Order.return_pet, done="returned", form=ReturnForm)

# The actions of each stage, the usual next step first.
ACTIONS: dict[Stage, list[OrderAction]] = {
    Stage.TO_APPROVE: [approve, cancel],
    Stage.TO_SHIP: [ship, ship_later, deliver, cancel],
    Stage.SCHEDULED: [reschedule, deliver, cancel],
    Stage.SHIPPED: [deliver, reschedule, cancel],
    Stage.DELIVERED: [return_pet],
    Stage.CANCELLED: [],
    Stage.RETURNED: [],
}


class PlacedFilter(TimeFilter, DropdownFilter):
    parameter_name = "placed"
    field = "created_at"


@admin.register(Order)
class OrderAdmin(ActionFormsMixin, LargeTableMixin):
    """Clients place and cancel orders. Staff approve, ship, deliver, cancel and return them."""

    can_add = can_delete = False
    actions = [approve, ship, ship_later, deliver, reschedule, cancel, return_pet]
    list_display = ["id", stage_badge, "account", "pet", "ship_date", "created_at"]
    list_filter = [StageFilter, ("status", ChoicesDropdownFilter), PlacedFilter]
    list_before_template: Any = "admin/inventory/order/stages.html"
    keys = {("status__exact",): OneFilterKey("id")}
    list_select_related = ["account", "pet"]
    search_fields = ["account__name"]
    search_help_text = "The ID of an order or a pet, or part of an account's name"
    fields = readonly_fields = (
        "account",
        "pet",
        "status",
        "ship_date",
        "returned_at",
        "created_at",
        "updated_at",
    )
    change_form_outer_before_template: Any = "admin/inventory/order/next.html"
    pages = {"<path:object_id>/act/<slug:name>/": ("act", "change")}

    def get_list_display(self, request: HttpRequest) -> Any:
        """Add a column with the next step, which returns to this page of the list."""
        context = {"return_to": request.get_full_path()}

        @admin.display(description="next step")
        def next_step(order: Order) -> str:
            actions = [] if order.stage == Stage.DELIVERED else list_actions(order)[:1]
            return render_to_string(BUTTONS_TEMPLATE, context | {"order": order, "actions": actions})

        may_act = self.has_change_permission(request) and IS_POPUP_VAR not in request.GET
        return [*self.list_display, *([next_step] if may_act else [])]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return super().changelist_view(request, (extra_context or {}) | {"tabs": build_tabs(request)})

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer on a tab only the actions that apply to its orders."""
        actions: dict[str, Any] = super().get_actions(request)
        stage = request.GET.get(StageFilter.parameter_name)
        if stage not in Stage.values:
            return actions
        return {name: action for name, action in actions.items() if action[0] in ACTIONS[Stage(stage)]}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Do nothing: orders change only by actions."""

    def search(self, request: HttpRequest, rows: QuerySet[Order], term: str) -> QuerySet[Order]:
        accounts = Account.objects.filter(name__search_key__contains=term)
        account_ids = list(accounts.values_list("pk", flat=True)[: MAX_MATCHING_ACCOUNTS + 1])
        if len(account_ids) > MAX_MATCHING_ACCOUNTS:
            text = f"More than {MAX_MATCHING_ACCOUNTS} account names contain this. Type more of the name."
            if request.path == self.list_url():  # The page of an order reads its list, too.
                self.message_user(request, text, messages.WARNING)
        condition = Q(account_id__in=account_ids[:MAX_MATCHING_ACCOUNTS])
        if (pk := parse_id(term)) is not None:
            condition |= Q(pk=pk) | Q(pet_id=pk)
        return rows.filter(condition)

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        """Find an order by ID, the actions that apply to it, and orders that wait for an action."""
        verb_prefix, pk = parse_reference(term, "order")
        if pk is not None:
            for order in Order.objects.filter(pk=pk).select_related("account", "pet"):
                yield from self.find_by_reference(request, order, verb_prefix)
        verb_prefix = term.lower().removesuffix("s").removesuffix("order").strip()
        if self.has_change_permission(request) and len(verb_prefix) >= MIN_VERB_LENGTH:
            yield from self.find_waiting_orders(verb_prefix)

    def find_by_reference(self, request: HttpRequest, order: Order, verb: str) -> Iterator[SearchResult]:
        url, may_change = change_url(order), self.has_change_permission(request)
        description = f"{order.stage.label}, {describe_pet(order.pet)} for {order.account}"
        if not verb:
            yield SearchResult(1, ORDER_ICON, f"Order {order.pk}", description, url)
        names = [name for name, *_ in list_actions(order)] if may_change else []
        # "ship" and "ship_later" share a verb and a page.
        for action in dict.fromkeys(name.split("_")[0] for name in names):
            if action.startswith(verb):
                title = f"{action.capitalize()} order {order.pk}"
                yield SearchResult(1 if verb else 2, ORDER_ICON, title, description, url)

    def find_waiting_orders(self, verb_prefix: str) -> Iterator[SearchResult]:
        for verb, stage in WAITING_STAGES.items():
            if not verb.startswith(verb_prefix):
                continue
            url = list_url("inventory_order", stage=stage)
            yield SearchResult(1, ORDER_ICON, f"Orders to {verb}", "", url)
            for order in find_orders(stage)[:MAX_RESULTS]:
                title = f"{verb.capitalize()} order {order.pk}"
                description = f"{describe_pet(order.pet)} for {order.account}"
                yield SearchResult(2, ORDER_ICON, title, description, change_url(order))

    def get_form_context(self, request: HttpRequest, row: Order) -> dict[str, Any]:
        return {
            "badge_type": STATUS_COLOURS[row.stage],
            "actions": list_actions(row) if self.has_change_permission(request, row) else [],
            "return_to": request.get_full_path(),
            "neighbours": self.find_neighbours(request, row),
            "history_title": "Order history",
            "history": get_status_history(row),
        }

    def find_neighbours(self, request: HttpRequest, order: Order) -> list[Order | None]:
        """Return the previous and the next order of the list that led to this page."""
        list_request = copy(request)
        list_request.GET = QueryDict(request.GET.get("_changelist_filters"))
        try:
            changelist = self.get_changelist_instance(list_request)
        except IncorrectLookupParameters:
            return []
        return changelist.find_neighbours(order.pk)  # type: ignore[no-any-return]

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Run an action on one order, then return to the page in `next` or the order's."""
        order: Order = self.get_permitted_object(request, object_id)
        actions: dict[str, Any] = super().get_actions(request)
        if name not in actions:
            raise Http404
        response: HttpResponse = actions[name][0](
            self, request, self.get_queryset(request).filter(pk=order.pk)
        )
        return response


def find_orders(stage: Stage) -> QuerySet[Order]:
    """Select the orders of a stage, the oldest first."""
    orders = Order.objects.filter(inline_values(stage.condition)).order_by("id")
    return orders.select_related("account", "pet")


def list_actions(order: Order) -> list[tuple[str, str, bool]]:
    """List name and label of the actions that apply, and whether each acts at once.

    The usual next step does, unless it needs data.
    """
    actions = ACTIONS[order.stage]
    if order.stage == Stage.DELIVERED and order.pet.status != PetStatus.SOLD:
        return []
    immediate = {approve, ship, deliver}.intersection(actions[:1])
    return [(action.__name__, action.short_description, action in immediate) for action in actions]


# --- Panels on the pages of accounts and events


def build_orders_panel(account: Account, request: HttpRequest) -> Panel | None:
    if not may_view(request, "inventory.order"):
        return None
    queryset = Order.objects.filter(account=account).newest_first()
    orders = list(queryset.prefetch_related("events").select_related("pet")[:MAX_ORDERS_IN_TIMELINE])
    entries = [
        entry._replace(
            title=f"Order {order.pk}: {entry.title.lower()}", link=change_url(order), icon=ORDER_ICON
        )
        for order in orders
        for entry in get_status_history(order)
    ]
    return Panel("admin/inventory/account_orders.html", orders[:MAX_ORDERS_IN_PANEL], entries)


def find_order_and_pet(account_id: int, data: dict[str, Any]) -> Iterator[Model]:
    if "order" in data:
        for order in Order.objects.filter(pk=data["order"]["id"]).select_related("pet"):
            yield from (order, order.pet)
    if "pet" in data:
        yield from Pet.objects.filter(pk=data["pet"]["id"])


account_panels.panel_factories.append(build_orders_panel)
events.subject_finders.append(find_order_and_pet)
