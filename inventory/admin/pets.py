"""Admin of pets and categories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters import admin as filters
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.admin.base import change_url
from inventory import stock
from inventory.admin.import_export import PetImportExportAdmin
from inventory.admin.shared import RowAction, SearchedFilter, label, parse_reference, staff, status_history
from inventory.members import PET
from inventory.models import LIVE_STATUSES, Category, Pet, PetStatus, TransitionError
from inventory.search import Folded, filter_by_prefix
from petstore.backoffice.changelist import BigTableAdmin, KeysetChangeList, parse_id
from petstore.backoffice.confirmation import Confirmation, ReasonForm
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult
from petstore.db.keysets import OneFilterKey, TwoFilterKey


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
        """Validate the change of status against the allowed transitions."""
        cleaned = super().clean() or {}
        before = Pet.objects.filter(pk=self.instance.pk).first()
        status = cleaned.get("status")
        if before is not None and status and status != before.status:
            try:
                before.check_not_held()
                before.check_transition(PetStatus(status), cleaned.get("reason", ""))
            except TransitionError as error:
                self.add_error("status", error)
        return cleaned


@dataclass(frozen=True)
class PetAction(RowAction):
    to: PetStatus
    returns: bool = False  # Applies only to sold pets. Other actions never return a sold pet to stock.

    def reason_to_skip(self, row: Pet) -> tuple[str, str] | None:
        order = row.orders.filter(status__in=LIVE_STATUSES).first()
        if order is not None:
            return (
                "they have an open order; cancel or deliver it first",
                f"{label(row)} in order {order.pk}",
            )
        if self.returns:
            reason = "" if row.status == PetStatus.SOLD else "only sold pets can be returned"
        elif row.status == self.to:
            reason = f"they are {self.to.value} already"
        else:
            reason = "sold pets can only be returned" if row.status == PetStatus.SOLD else ""
        return (reason, label(row)) if reason else None

    def act(self, row: Pet, by: str, given: dict[str, Any]) -> None:
        row.transition(self.to, by=by, reason=given.get("reason", ""))

    def entry(self, given: dict[str, Any]) -> str:
        reason = given.get("reason", "")
        return f"{self.done.capitalize()}{f': {reason}' if reason else '.'}"


ACTIONS = {
    "make_available": PetAction("Make available", "made available", PetStatus.AVAILABLE),
    "set_pending": PetAction("Set pending", "set pending", PetStatus.PENDING),
    "mark_sold": PetAction("Mark sold", "marked sold", PetStatus.SOLD),
    "return_to_stock": PetAction(
        "Return to stock...",
        "returned to stock",
        PetStatus.AVAILABLE,
        returns=True,
        form=ReasonForm,
        question=Confirmation(
            "Return {} to stock",
            "Return to stock",
            "Sold pets become available again. Others don't change.",
        ),
    ),
}


@admin.register(Pet)
class PetAdmin(PetImportExportAdmin):
    """Every query is by an index, for a million pets."""

    form = PetForm
    list_display = ["visible_name", "id", "status_badge", "category", "updated_at"]
    list_filter = [("status", filters.ChoicesDropdownFilter), ("category", SearchedFilter)]
    keys = MappingProxyType(
        {
            ("category__id__exact",): OneFilterKey("id"),
            ("category__id__exact", "status__exact"): TwoFilterKey("id"),
        }
    )
    expressions = MappingProxyType({"folded": Folded("name")})
    list_select_related = ["category"]
    ordering = ["-id"]
    search_fields = ["name"]
    search_help_text = "The start of a name, or an ID"
    autocomplete_fields = ["category"]
    fields = [*PET.form_fields, "reason", "created_at", "updated_at"]
    readonly_fields = ["created_at", "updated_at"]
    row_actions = ACTIONS
    deletion_hint = "Mark it sold instead: clients can't order it then."
    palette_commands = (
        PaletteCommand("add", "Add a pet"),
        PaletteCommand("upload", "Import pets", "import"),
        PaletteCommand("download", "Export pets", "export", "view"),
    )

    def get_sortable_by(self, request: HttpRequest) -> Any:
        """Allow sorting by ID, except of search results, which are in the order of the name index."""
        return [] if request.GET.get(SEARCH_VAR) else ["id"]

    def search(self, request: HttpRequest, rows: QuerySet[Pet], term: str) -> QuerySet[Pet]:
        pk = parse_id(term)
        return filter_by_prefix(rows, term, or_condition=None if pk is None else Q(pk=pk))

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        action, pk = parse_reference(term, "pet")
        pets = Pet.objects.select_related("category")
        exact = list(pets.filter(pk=pk)) if pk is not None and not action else []
        others = [pet for pet in filter_by_prefix(pets, term)[: MAX_RESULTS + 1] if pet not in exact]
        for rank, found in ((1, exact), (2, others[:MAX_RESULTS])):
            for pet in found:
                about = f"Pet, {pet.get_status_display().lower()}, {pet.category}"
                yield SearchResult(rank, "pets", label(pet), about, change_url(pet))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Change the status with `change_status`, which checks it and records the event."""
        if not change:
            obj.save()
            return
        obj.save(update_fields={*PET.form_fields, "updated_at"} - {"status"})
        if "status" in form.changed_data:
            try:
                obj.change_status(
                    PetStatus(obj.status), by=staff(request), reason=form.cleaned_data["reason"]
                )
            except TransitionError as error:  # Changed since the form was validated.
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

    def form_context(self, request: HttpRequest, row: Pet | None) -> dict[str, Any]:
        return {"history_title": "History of the status", "history": status_history(row)} if row else {}

    def describe(self, row: Pet) -> str:
        return label(row)


# --- Categories


def count_pets(categories: Iterable[Any]) -> None:
    """Set `pet_count` to the number in the latest stock count, or to None without a count."""
    counted = stock.get_stock()
    counts = {row.category_id: row.total for row in counted.categories} if counted else {}
    for category in categories:
        category.pet_count = counts.get(category.pk, 0) if counted else None


class CategoryList(KeysetChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        count_pets(self.result_list)


@admin.register(Category)
class CategoryAdmin(BigTableAdmin):
    list_display = ["visible_name", "id", "pets", "description"]
    search_fields = ["name"]
    search_help_text = "Part of a name"
    ordering = ["name"]
    sortable_by = ["visible_name", "id"]
    list_filter_submit = False
    readonly_fields = ["pets"]
    deletion_hint = "Move its pets to another category first, or rename it."
    palette_commands = (PaletteCommand("add", "Add a category"),)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return CategoryList

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["name", "description"] if obj is None else ["name", "description", "pets"]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        category = super().get_object(request, object_id, from_field)
        count_pets([category] if category is not None else [])
        return category

    @admin.display(description="pets")
    def pets(self, category: Any) -> str:
        number: int | None = category.pet_count
        return format_html(
            '<a class="text-primary-600 dark:text-primary-500" href="{}?category__id__exact={}">{}</a>',
            reverse("admin:inventory_pet_changelist"),
            category.pk,
            "not counted yet" if number is None else f"{number:,}",
        )
