"""Pets in the back office."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextInputWidget

from inventory.admin.changelist import row_id
from inventory.admin.import_export import PetExchange
from inventory.admin.pet_actions import label, move_pets
from inventory.admin.shared import SearchedFilter, Verb, staff, steps_of
from inventory.models import IllegalMoveError, Pet, PetStatus
from inventory.search import starting_with
from petstore.backoffice.confirmation import Question, ReasonForm
from petstore.backoffice.wording import counted
from petstore.db.keysets import OneFilterKey, TwoFilterKey

COLOURS: dict[str, str] = {
    PetStatus.AVAILABLE: "success",
    PetStatus.PENDING: "warning",
    PetStatus.SOLD: "default",
}


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


@dataclass(frozen=True, kw_only=True)
class PetVerb(Verb):
    to: PetStatus


VERBS = {
    "make_available": PetVerb(description="Make available", to=PetStatus.AVAILABLE, done="made available"),
    "set_pending": PetVerb(description="Set pending", to=PetStatus.PENDING, done="set pending"),
    "mark_sold": PetVerb(description="Mark sold", to=PetStatus.SOLD, done="marked sold"),
    "return_to_stock": PetVerb(
        description="Return to stock...",
        to=PetStatus.AVAILABLE,
        done="returned to stock",
        form=ReasonForm,
        question=Question(
            "Return pets to stock",
            "Return to stock",
            "The pets that are sold become available again. Others stay as they are.",
        ),
    ),
}


@admin.register(Pet)
class PetAdmin(PetExchange):
    """The animals. No page of theirs grows slow with a million of them."""

    form = PetForm
    list_display = ["name", "id", "status_badge", "category", "updated_at"]
    list_filter = [("status", ChoicesDropdownFilter), ("category", SearchedFilter)]
    keys = MappingProxyType(
        {
            ("category__id__exact",): OneFilterKey("id"),
            ("category__id__exact", "status__exact"): TwoFilterKey("id"),
        }
    )
    list_select_related = ["category"]
    search_fields = ["name"]
    search_help_text = "The start of a name, or an id"
    autocomplete_fields = ["category"]
    fields = ["name", "category", "status", "reason", "created_at", "updated_at"]
    readonly_fields = ["created_at", "updated_at"]
    verbs = VERBS

    @display(description="status", label=COLOURS)
    def status_badge(self, pet: Pet) -> tuple[str, str]:
        return pet.status, pet.get_status_display()

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
        obj.save(update_fields=["name", "category", "updated_at"])
        if "status" in form.changed_data:
            try:
                obj.move(PetStatus(obj.status), by=staff(request), reason=form.cleaned_data["reason"])
            except IllegalMoveError as error:  # Somebody was faster.
                self.message_user(request, error.message, messages.ERROR)

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
        if outcome.done:
            text = f"{counted(len(outcome.done), 'pet')} {verb.done}."
            self.message_user(request, text, messages.SUCCESS)
        for sentence in outcome.sentences():
            self.message_user(request, sentence, messages.WARNING)

    def in_words(self, row: Pet) -> str:
        return label(row)
