"""Pets and their categories in the back office, and moving many pets at once."""

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

from accounts.admin.base import address
from inventory import stock
from inventory.admin.import_export import PetExchange
from inventory.admin.shared import SearchedFilter, Verb, label, numbered, staff, steps_of
from inventory.members import PET
from inventory.models import LIVE, Category, IllegalMoveError, Pet, PetStatus
from inventory.search import Folded, starting_with
from petstore.backoffice.changelist import BigTableAdmin, KeysetChangeList, row_id
from petstore.backoffice.confirmation import Question, ReasonForm
from petstore.backoffice.palette import MOST, Offer, Result
from petstore.db.keysets import OneFilterKey, TwoFilterKey


class PetForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """A pet; its status moves as the rules allow, with a reason where they ask for one."""

    reason = forms.CharField(
        required=False,
        max_length=255,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why the status changes; needed when a pet is returned.",
    )

    class Meta:
        model = Pet
        fields = PET.form_fields

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


@dataclass(frozen=True)
class PetVerb(Verb):
    to: PetStatus
    returns: bool = False  # What is sold, and nothing else: taking stock back is never a side effect.

    def why_not(self, row: Pet) -> tuple[str, str] | None:
        order = row.orders.filter(status__in=LIVE).first()
        if order is not None:
            return "a waiting order holds them; cancel or deliver it", f"{label(row)} in order {order.pk}"
        if self.returns:
            reason = "" if row.status == PetStatus.SOLD else "only sold pets can be returned"
        elif row.status == self.to:
            reason = f"they are {self.to.value} already"
        else:
            reason = "sold pets can only be returned" if row.status == PetStatus.SOLD else ""
        return (reason, label(row)) if reason else None

    def act(self, row: Pet, by: str, given: dict[str, Any]) -> None:
        row.step(self.to, by=by, reason=given.get("reason", ""))

    def entry(self, given: dict[str, Any]) -> str:
        reason = given.get("reason", "")
        return f"{self.done.capitalize()}{f': {reason}' if reason else '.'}"


VERBS = {
    "make_available": PetVerb("Make available", "made available", PetStatus.AVAILABLE),
    "set_pending": PetVerb("Set pending", "set pending", PetStatus.PENDING),
    "mark_sold": PetVerb("Mark sold", "marked sold", PetStatus.SOLD),
    "return_to_stock": PetVerb(
        "Return to stock...",
        "returned to stock",
        PetStatus.AVAILABLE,
        returns=True,
        form=ReasonForm,
        question=Question(
            "Return {} to stock",
            "Return to stock",
            "The pets that are sold become available again. Others stay as they are.",
        ),
    ),
}


@admin.register(Pet)
class PetAdmin(PetExchange):
    """The pets. No page of theirs grows slow with a million of them."""

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
    ordering = ["-id"]  # What was added last is seen first.
    search_fields = ["name"]
    search_help_text = "The start of a name, or an id"
    autocomplete_fields = ["category"]
    fields = [*PET.form_fields, "reason", "created_at", "updated_at"]
    readonly_fields = ["created_at", "updated_at"]
    verbs = VERBS
    instead_of_deleting = "Mark it sold, and no client can order it."
    offers = (
        Offer("add", "Add a pet"),
        Offer("upload", "Import pets", "import"),
        Offer("download", "Export pets", "export", "view"),
    )

    def get_sortable_by(self, request: HttpRequest) -> Any:
        """Sort by id, but what was searched for by name is in the order of names."""
        return [] if request.GET.get(SEARCH_VAR) else ["id"]

    def search(self, request: HttpRequest, rows: QuerySet[Pet], term: str) -> QuerySet[Pet]:
        """Search by the start of the name, all words as one, or by id."""
        pk = row_id(term)
        return starting_with(rows, term, or_else=None if pk is None else Q(pk=pk))

    def find(self, request: HttpRequest, term: str) -> Iterator[Result]:
        """Yield the pet of an id, and pets by the start of the name, in the order of the index."""
        verb, pk = numbered(term, "pet")
        pets = Pet.objects.select_related("category")
        exact = list(pets.filter(pk=pk)) if pk is not None and not verb else []
        others = [pet for pet in starting_with(pets, term)[: MOST + 1] if pet not in exact]
        for rank, found in ((1, exact), (2, others[:MOST])):
            for pet in found:
                about = f"Pet, {pet.get_status_display().lower()}, {pet.category}"
                yield Result(rank, "pets", label(pet), about, address(pet))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save what was edited; the status only by a move."""
        if not change:
            obj.save()
            return
        obj.save(update_fields={*PET.form_fields, "updated_at"} - {"status"})
        if "status" in form.changed_data:
            try:
                obj.move(PetStatus(obj.status), by=staff(request), reason=form.cleaned_data["reason"])
            except IllegalMoveError as error:  # Somebody was faster.
                self.message_user(request, error.message, messages.ERROR)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Fill in the category of the pet that was added before."""
        pk = row_id(request.GET.get("category"))
        return {"category": pk} if pk and Category.objects.filter(pk=pk).exists() else {}

    def response_add(self, request: HttpRequest, obj: Pet, post_url_continue: Any = None) -> HttpResponse:
        """Go on with a pet of the same category, or to the list from its start: the new pet is there."""
        response = super().response_add(request, obj, post_url_continue)
        if "_addanother" in request.POST:
            return HttpResponseRedirect(f"{request.path}?category={obj.category_id}")
        return response

    def response_post_save_add(self, request: HttpRequest, obj: Pet) -> HttpResponseRedirect:
        return HttpResponseRedirect(reverse("admin:inventory_pet_changelist"))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else PET.form_fields

    def beside_form(self, request: HttpRequest, row: Pet | None) -> dict[str, Any]:
        return {"history_title": "History of the status", "history": steps_of(row)} if row else {}

    def in_words(self, row: Pet) -> str:
        return label(row)


# --- Categories


def count_pets(categories: Iterable[Any]) -> None:
    """Give each category its number of pets when they were last counted; None if they never were."""
    counted = stock.snapshot()
    numbers = {row.category_id: row.total for row in counted.categories} if counted else {}
    for category in categories:
        category.number_of_pets = numbers.get(category.pk, 0) if counted else None


class CategoryList(KeysetChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        count_pets(self.result_list)


@admin.register(Category)
class CategoryAdmin(BigTableAdmin):
    list_display = ["visible_name", "id", "pets", "description"]
    search_fields = ["name"]
    search_help_text = "A part of a name"
    ordering = ["name"]
    sortable_by = ["visible_name", "id"]
    list_filter_submit = False
    readonly_fields = ["pets"]
    instead_of_deleting = "Move its pets to another category first, or give it another name."
    offers = (Offer("add", "Add a category"),)

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
        number: int | None = category.number_of_pets
        return format_html(
            '<a class="text-primary-600 dark:text-primary-500" href="{}?category__id__exact={}">{}</a>',
            reverse("admin:inventory_pet_changelist"),
            category.pk,
            "being counted" if number is None else f"{number:,}",
        )
