"""Admin of pets."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Substr
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.contrib.filters import admin as filters

from accounts.models import ApiKey
from inventory.admin import import_export
from inventory.admin.base import (
    AutocompleteFilter,
    RowAction,
    describe_pet,
    get_actor_name,
    get_status_history,
    parse_reference,
    status_badge,
)
from inventory.models import Category, OrderEvent, Pet, PetStatus, TransitionError
from inventory.search import filter_by_prefix
from petstore.api.int64 import parse_id
from petstore.audit.forms import ReasonForm
from petstore.backoffice.changelist import LargeTableMixin
from petstore.backoffice.confirmation import ActionFormsMixin
from petstore.backoffice.forms import EditForm
from petstore.backoffice.model_admin import change_url
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult, list_result
from petstore.db.keysets import OneFilterKey, TwoFilterKey

MAX_ORDERS_IN_PANEL = 10
PET_FIELDS = ["name", "category", "status"]


class PetForm(EditForm):
    reason = forms.CharField(
        required=False,
        max_length=255,
        help_text="Why the status changes. Required when a sold pet becomes available again.",
    )

    class Meta:
        model = Pet
        fields = PET_FIELDS

    def clean(self) -> dict[str, Any]:
        """Report a transition that the model would reject as an error of the form."""
        cleaned_data = super().clean()
        pet, status = self.instance, cleaned_data.get("status")  # `pet` still has the stored status.
        if pet.pk is not None and status and status != pet.status:
            try:
                pet.check_not_held()
                pet.check_transition(PetStatus(status), cleaned_data.get("reason", ""))
            except TransitionError as error:
                self.add_error("status", error)
        return cleaned_data


class ReturnForm(ReasonForm):
    title = "Return {} to stock"
    button = "Return to stock"
    warning = "Only sold pets become available again."


def return_pet_to_stock(pet: Pet, **data: Any) -> None:
    if pet.status != PetStatus.SOLD:
        raise TransitionError(f"Pet {pet.pk} is {pet.status}. Only sold pets can be returned.")
    pet.change_status(PetStatus.AVAILABLE, **data)


def status_action(name: str, label: str, status: PetStatus, done: str) -> RowAction:
    return RowAction(name, label, partial(Pet.change_status, to_status=status), done=done)


ACTIONS = [
    status_action("make_available", "Make available", PetStatus.AVAILABLE, "made available"),
    status_action("set_pending", "Set pending", PetStatus.PENDING, "set pending"),
    status_action("mark_sold", "Mark sold", PetStatus.SOLD, "marked sold"),
    RowAction(
        "return_to_stock",
        "Return to stock...",
        return_pet_to_stock,
        done="returned to stock",
        form=ReturnForm,
    ),
]


@admin.register(Pet)
class PetAdmin(ActionFormsMixin, LargeTableMixin):
    """Every query uses an index, since there may be a million pets."""

    form = PetForm
    actions = ACTIONS
    list_display = ["visible_name", "id", status_badge, "category", "updated_at"]
    list_filter = [("status", filters.ChoicesDropdownFilter), ("category", AutocompleteFilter)]
    keys = {
        ("category__id__exact",): OneFilterKey("id"),
        ("category__id__exact", "status__exact"): TwoFilterKey("id"),
    }
    list_select_related = ["category"]
    ordering = ["-id"]
    search_fields = ["name"]
    search_help_text = "The start of a name, or an ID"
    autocomplete_fields = ["category"]
    fields = [*PET_FIELDS, "reason", "created_at", "updated_at"]
    readonly_fields = ["created_at", "updated_at"]
    deletion_hint = "Mark it sold instead, so that clients can't order it."
    pages = {
        "import/": ("import", "add"),
        "import/template/": ("import_template", "add"),
        "process_import/": ("process_import", "add"),
        "export/": ("export", "view"),
    }
    import_view = import_export.import_view
    import_template_view = import_export.import_template_view
    process_import_view = import_export.process_import_view
    export_view = import_export.export_view
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
            yield list_result("All pets that match", Pet, {SEARCH_VAR: term})

    def build_result(self, rank: int, pet: Pet) -> SearchResult:
        description = f"Pet, {pet.get_status_display().lower()}, {pet.category}"
        return SearchResult(rank, "pets", describe_pet(pet), description, change_url(pet))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Change the status with `change_status`, which checks the transition and records it."""
        if not change:
            obj.save()
            return
        obj.save(update_fields={*PET_FIELDS, "updated_at"} - {"status"})
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
        return self.fields if obj else PET_FIELDS

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
