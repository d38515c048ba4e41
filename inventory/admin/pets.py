"""Admin of pets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Substr
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.contrib.filters import admin as filters
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.admin.base import change_url
from accounts.models import ApiKey
from inventory.admin.base import (
    AutocompleteFilter,
    RowAction,
    describe_pet,
    get_actor_name,
    get_status_history,
    parse_reference,
)
from inventory.admin.import_export import PetImportExportAdmin
from inventory.members import PET
from inventory.models import LIVE_STATUSES, Category, OrderEvent, Pet, PetStatus, TransitionError
from inventory.search import Folded, filter_by_prefix
from petstore.backoffice.changelist import parse_id
from petstore.backoffice.confirmation import Confirmation, ReasonForm
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult, list_result
from petstore.db.keysets import OneFilterKey, TwoFilterKey

MAX_ORDERS_IN_PANEL = 10


class PetForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    reason = forms.CharField(
        required=False,
        max_length=255,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why the status changes. Required when a sold pet becomes available again.",
    )

    class Meta:
        model = Pet
        fields = PET.form_fields

    def clean(self) -> dict[str, Any]:
        """Report a transition that the model would reject as an error of the form."""
        cleaned_data = super().clean() or {}
        pet, status = self.instance, cleaned_data.get("status")  # `pet` still has the stored status.
        if pet.pk is not None and status and status != pet.status:
            try:
                pet.check_not_held()
                pet.check_transition(PetStatus(status), cleaned_data.get("reason", ""))
            except TransitionError as error:
                self.add_error("status", error)
        return cleaned_data


@dataclass(frozen=True)
class PetAction(RowAction):
    to_status: PetStatus
    is_return: bool = False  # Applies only to sold pets. Other actions never return a sold pet to stock.

    def get_skip_reason(self, obj: Pet) -> tuple[str, str] | None:
        label, is_sold = describe_pet(obj), obj.status == PetStatus.SOLD
        if order := obj.orders.filter(status__in=LIVE_STATUSES).first():
            return "held by an open order; cancel or deliver it first", f"{label} in order {order.pk}"
        if self.is_return:
            return None if is_sold else ("only sold pets can be returned", label)
        if obj.status == self.to_status:
            return f"already {self.to_status.value}", label
        return ("sold pets can only be returned", label) if is_sold else None

    def perform(self, obj: Pet, by: str, cleaned_data: dict[str, Any]) -> None:
        obj.transition(self.to_status, by=by, reason=cleaned_data.get("reason", ""))

    def get_audit_reason(self, cleaned_data: dict[str, Any]) -> str:
        action = self.past_participle.capitalize()
        reason = cleaned_data.get("reason", "")
        return f"{action}: {reason}" if reason else f"{action}."


ACTIONS = {
    "make_available": PetAction("Make available", "made available", PetStatus.AVAILABLE),
    "set_pending": PetAction("Set pending", "set pending", PetStatus.PENDING),
    "mark_sold": PetAction("Mark sold", "marked sold", PetStatus.SOLD),
    "return_to_stock": PetAction(
        "Return to stock...",
        "returned to stock",
        PetStatus.AVAILABLE,
        is_return=True,
        form=ReasonForm,
        confirmation=Confirmation(
            "Return {} to stock",
            "Return to stock",
            "Only sold pets become available again.",
        ),
    ),
}


@admin.register(Pet)
class PetAdmin(PetImportExportAdmin):
    """Every query uses an index, since there may be a million pets."""

    form = PetForm
    list_display = ["visible_name", "id", "status_badge", "category", "updated_at"]
    list_filter = [("status", filters.ChoicesDropdownFilter), ("category", AutocompleteFilter)]
    keys = {
        ("category__id__exact",): OneFilterKey("id"),
        ("category__id__exact", "status__exact"): TwoFilterKey("id"),
    }
    expressions = {"folded": Folded("name")}
    list_select_related = ["category"]
    ordering = ["-id"]
    search_fields = ["name"]
    search_help_text = "The start of a name, or an ID"
    autocomplete_fields = ["category"]
    fields = [*PET.form_fields, "reason", "created_at", "updated_at"]
    readonly_fields = ["created_at", "updated_at"]
    row_actions = ACTIONS
    deletion_hint = "Mark it sold instead, so that clients can't order it."
    palette_commands = (
        PaletteCommand("add", "Add a pet"),
        PaletteCommand("upload", "Import pets", "import"),
        PaletteCommand("download", "Export pets", "export", "view"),
    )

    def get_sortable_by(self, request: HttpRequest) -> Any:
        """Search results can't be sorted: they are in the order of the name index."""
        return [] if request.GET.get(SEARCH_VAR) else ["id"]

    def search(self, request: HttpRequest, rows: QuerySet[Pet], term: str) -> QuerySet[Pet]:
        pk = parse_id(term)
        return filter_by_prefix(rows, term, or_condition=None if pk is None else Q(pk=pk))

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        action, pk = parse_reference(term, "pet")
        pets = Pet.objects.select_related("category")
        if pk is not None and not action:
            for pet in pets.filter(pk=pk):
                yield self.build_result(1, pet)
        by_name = [pet for pet in filter_by_prefix(pets, term)[: MAX_RESULTS + 1] if action or pet.pk != pk]
        for pet in by_name[:MAX_RESULTS]:
            yield self.build_result(2, pet)
        if len(by_name) > MAX_RESULTS:
            yield list_result("pets", "All pets that match", Pet, {SEARCH_VAR: term}, by_name)

    def build_result(self, rank: int, pet: Pet) -> SearchResult:
        description = f"Pet, {pet.get_status_display().lower()}, {pet.category}"
        return SearchResult(rank, "pets", describe_pet(pet), description, change_url(pet))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Change the status with `change_status`, which checks the transition and records it."""
        if not change:
            obj.save()
            return
        obj.save(update_fields={*PET.form_fields, "updated_at"} - {"status"})
        if "status" in form.changed_data:
            try:
                obj.change_status(
                    PetStatus(obj.status), by=get_actor_name(request), reason=form.cleaned_data["reason"]
                )
            except TransitionError as error:  # The pet has changed since the form was validated.
                self.message_user(request, error.message, messages.ERROR)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        pk = parse_id(request.GET.get("category"))
        return {"category": pk} if pk and Category.objects.filter(pk=pk).exists() else {}

    def response_add(self, request: HttpRequest, obj: Pet, post_url_continue: Any = None) -> HttpResponse:
        """Offer the next pet in the same category after "Save and add another"."""
        response = super().response_add(request, obj, post_url_continue)
        if "_addanother" in request.POST:
            return HttpResponseRedirect(f"{request.path}?category={obj.category_id}")
        return response

    def response_post_save_add(self, request: HttpRequest, obj: Pet) -> HttpResponseRedirect:
        return HttpResponseRedirect(reverse("admin:inventory_pet_changelist"))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else PET.form_fields

    def get_form_context(self, request: HttpRequest, row: Pet | None) -> dict[str, Any]:
        if row is None:
            return {}
        placed = OrderEvent.objects.filter(order=OuterRef("pk"), from_status="")
        public_id = Subquery(placed.values(public_id=Substr("by", len("key ") + 1))[:1])
        key = ApiKey.objects.filter(public_id=OuterRef("public_id"))
        orders = row.orders.select_related("account").annotate(public_id=public_id)
        return {
            "orders": orders.annotate(key=Subquery(key.values("pk")))[:MAX_ORDERS_IN_PANEL],
            "history_title": "Status history",
            "history": get_status_history(row),
        }

    def describe(self, obj: Pet) -> str:
        return describe_pet(obj)
