"""Pets, categories and orders in the back office."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from inventory.models import Category, IllegalMoveError, Order, OrderEvent, Pet, PetEvent, PetStatus
from petstore.backoffice.pages import HistoryInline, PetstoreModelAdmin

EVENT_FIELDS = ("at", "from_status", "to_status", "by", "reason")
MOST_AT_ONCE = 500  # Orders that one action takes.


def staff(request: HttpRequest) -> str:
    """Return the member of staff, for histories."""
    return f"staff {request.user.get_username()}"


@admin.register(Category)
class CategoryAdmin(PetstoreModelAdmin):
    """The kinds of animals."""

    list_display = ["name", "id", "description"]
    search_fields = ["name"]


class PetForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """A pet; its status moves as the rules allow, with a reason where they ask for one."""

    reason = forms.CharField(
        required=False, max_length=255, help_text="Why the status changes; needed when a pet is returned."
    )

    class Meta:
        model = Pet
        fields = ["name", "category", "status"]

    def clean(self) -> dict[str, Any]:
        """Refuse a step that is not legal."""
        cleaned = super().clean() or {}
        before = Pet.objects.filter(pk=self.instance.pk).first()
        status = cleaned.get("status")
        if before is not None and status and status != before.status:
            try:
                before.check_free()
                before.check_move(PetStatus(status), cleaned.get("reason", ""))
            except IllegalMoveError as error:
                self.add_error("status", error)
        return cleaned


class PetEventInline(HistoryInline):
    """What became of the pet, the last first."""

    model = PetEvent
    verbose_name_plural = "history of the status"
    fields = readonly_fields = EVENT_FIELDS


@admin.register(Pet)
class PetAdmin(PetstoreModelAdmin):
    """The animals. No page of theirs grows slow with a million of them."""

    form = PetForm
    inlines = [PetEventInline]
    list_display = ["name", "id", "status", "category", "updated_at"]
    list_filter = ["status", "category"]
    list_select_related = ["category"]
    sortable_by = ["id"]  # The only order that an index gives.
    search_fields = ["name"]
    search_help_text = "The start of a name, or an id."
    autocomplete_fields = ["category"]
    fields = ["name", "category", "status", "reason", "created_at", "updated_at"]
    readonly_fields = ["created_at", "updated_at"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by the start of the name, all words as one, or by id."""
        term = search_term.strip()
        found = Q(name__istartswith=term)
        if term.isdecimal():
            found |= Q(pk=int(term))
        return queryset.filter(found), False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save what was edited; the status only by a move."""
        if not change:
            obj.save()
            return
        obj.save(update_fields=["name", "category", "updated_at"])
        if "status" in form.changed_data:
            try:
                obj.move(PetStatus(obj.status), by=staff(request), reason=form.cleaned_data["reason"])
            except IllegalMoveError as error:  # Somebody was faster.
                self.message_user(request, error.message, messages.ERROR)


class OrderEventInline(HistoryInline):
    """What became of the order, the last first."""

    model = OrderEvent
    verbose_name_plural = "history of the order"
    fields = readonly_fields = EVENT_FIELDS


@admin.register(Order)
class OrderAdmin(PetstoreModelAdmin):
    """Orders are placed by clients. Staff approve, ship, deliver and cancel them."""

    inlines = [OrderEventInline]
    list_display = ["id", "account", "pet", "status", "ship_date", "created_at"]
    list_filter = ["status"]
    list_select_related = ["account", "pet"]
    sortable_by = ["id"]
    search_fields = ["account__name"]
    search_help_text = "A part of the account's name."
    fields = ["account", "pet", "status", "ship_date", "created_at", "updated_at"]
    readonly_fields = ["account", "pet", "status", "ship_date", "created_at", "updated_at"]
    actions = ["approve", "ship", "deliver", "cancel"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Forbid: clients place orders."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid: an order is cancelled, and stays on record."""
        return False

    @admin.action(description="Approve", permissions=["change"])
    def approve(self, request: HttpRequest, orders: QuerySet[Order]) -> None:
        """Accept the orders."""
        self.act(request, orders, "approved", lambda order: order.approve(by=staff(request)))

    @admin.action(description="Ship now", permissions=["change"])
    def ship(self, request: HttpRequest, orders: QuerySet[Order]) -> None:
        """Note that the animals leave now."""
        self.act(request, orders, "shipped", lambda order: order.ship(by=staff(request)))

    @admin.action(description="Deliver: the animal is sold", permissions=["change"])
    def deliver(self, request: HttpRequest, orders: QuerySet[Order]) -> None:
        """Hand the animals over."""
        self.act(request, orders, "delivered", lambda order: order.deliver(by=staff(request)))

    @admin.action(description="Cancel: the animal is available again", permissions=["change"])
    def cancel(self, request: HttpRequest, orders: QuerySet[Order]) -> None:
        """Give the animals free."""
        self.act(request, orders, "cancelled", lambda order: order.cancel(by=staff(request)))

    def act(
        self, request: HttpRequest, orders: QuerySet[Order], done: str, verb: Callable[[Order], None]
    ) -> None:
        """Do it to each order that allows it; say which were skipped, and why."""
        acted = 0
        for order in orders[:MOST_AT_ONCE]:
            try:
                verb(order)
            except IllegalMoveError as error:
                self.message_user(request, f"Skipped: {error.message}", messages.WARNING)
            else:
                acted += 1
                self.log_change(request, order, done.capitalize())
        if acted:
            self.message_user(request, f"{acted} orders {done}.")
