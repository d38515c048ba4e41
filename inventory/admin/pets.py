"""Pets in the back office, and moving many of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from unfold.contrib.filters import admin as filters
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.models import EventDraft
from inventory.admin.import_export import PetExchange
from inventory.admin.shared import Outcome, SearchedFilter, Verb, label, staff, steps_of
from inventory.members import PET
from inventory.models import LIVE, PET_MOVES, Category, IllegalMoveError, Order, Pet, PetEvent, PetStatus
from inventory.search import Folded, starting_with
from petstore.backoffice.changelist import row_id
from petstore.backoffice.confirmation import Question, ReasonForm
from petstore.backoffice.wording import counted
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


def move_pets(
    ids: Iterable[int], to: PetStatus, *, by: str, reason: str = "", returns: bool = False
) -> Outcome:
    """Move the pets that may go there, in five queries however many they are.

    A sold pet is moved only where `returns` says so, and then no other is: taking stock back is never a
    side effect. Raises ValueError for returns without a reason.
    """
    if returns and not reason.strip():
        raise ValueError("A return needs a reason.")
    outcome = Outcome()
    wanted = set(ids)
    with transaction.atomic():
        # Locked in the order of ids, so that two of these never wait for each other.
        pets = list(Pet.objects.select_for_update().filter(pk__in=wanted).order_by("pk"))
        held = dict(Order.objects.filter(pet__in=pets, status__in=LIVE).values_list("pet_id", "pk"))
        for pet in pets:
            order = held.get(pet.pk)
            if why_not := refusal(pet, to, returns=returns, order=order):
                outcome.skip(why_not, f"{label(pet)} in order {order}" if order else label(pet))
            else:
                outcome.done.append(pet)
        now = timezone.now()
        PetEvent.objects.bulk_create(
            PetEvent(pet=pet, from_status=pet.status, to_status=to, by=by, reason=reason[:255], at=now)
            for pet in outcome.done
        )
        Pet.objects.filter(pk__in=[pet.pk for pet in outcome.done]).update(status=to, updated_at=now)
        for pet in outcome.done:
            pet.status, pet.updated_at = to, now
        EventDraft.objects.bulk_create(pet.status_changed() for pet in outcome.done)
    for gone in sorted(wanted - {pet.pk for pet in pets}):
        outcome.skip("they are no longer there", f"pet {gone}")
    return outcome


def refusal(pet: Pet, to: PetStatus, *, returns: bool, order: int | None) -> str:
    """Return why the pet stays as it is, or nothing. Mirrors PET_MOVES and Pet.check_move."""
    if order is not None:
        return "a waiting order holds them; cancel or deliver it"
    if returns:
        return "" if pet.status == PetStatus.SOLD else "only sold pets can be returned"
    if pet.status == to:
        return f"they are {to.value} already"
    if pet.status == PetStatus.SOLD or to not in PET_MOVES[PetStatus(pet.status)]:
        return "sold pets can only be returned"
    return ""


@dataclass(frozen=True)
class PetVerb(Verb):
    to: PetStatus


VERBS = {
    "make_available": PetVerb("Make available", "made available", PetStatus.AVAILABLE),
    "set_pending": PetVerb("Set pending", "set pending", PetStatus.PENDING),
    "mark_sold": PetVerb("Mark sold", "marked sold", PetStatus.SOLD),
    "return_to_stock": PetVerb(
        "Return to stock...",
        "returned to stock",
        PetStatus.AVAILABLE,
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

    def get_sortable_by(self, request: HttpRequest) -> Any:
        """Sort by id, but what was searched for by name is in the order of names."""
        return [] if request.GET.get(SEARCH_VAR) else ["id"]

    def search(self, request: HttpRequest, rows: QuerySet[Pet], term: str) -> QuerySet[Pet]:
        """Search by the start of the name, all words as one, or by id."""
        pk = row_id(term)
        return starting_with(rows, term, or_else=None if pk is None else Q(pk=pk))

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

    def carry_out(
        self, request: HttpRequest, rows: list[Pet], verb: PetVerb, given: dict[str, Any]
    ) -> None:
        ids, reason = [pet.pk for pet in rows], given.get("reason", "")
        with transaction.atomic():
            outcome = move_pets(ids, verb.to, by=staff(request), reason=reason, returns=bool(reason))
            for pet in outcome.done:
                self.log_change(request, pet, f"{verb.done.capitalize()}{f': {reason}' if reason else '.'}")
        self.tell(request, outcome, f"{counted(len(outcome.done), 'pet')} {verb.done}.")

    def in_words(self, row: Pet) -> str:
        return label(row)
