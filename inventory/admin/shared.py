"""What the pages of pets, orders and categories share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.contrib.filters.forms import AutocompleteDropdownForm
from unfold.decorators import display

from inventory.models import Order, OrderStatus, Pet, PetStatus
from petstore.backoffice.changelist import BigTableAdmin, is_across, row_id
from petstore.backoffice.confirmation import Question, confirm
from petstore.backoffice.history import MOST_SHOWN, Entry
from petstore.backoffice.model_admin import SafeAutocompleteSelect
from petstore.backoffice.wording import counted, short
from petstore.db.names import visible_name

COLOURS: dict[str, str] = {
    PetStatus.AVAILABLE: "success",
    PetStatus.PENDING: "warning",
    PetStatus.SOLD: "default",
    OrderStatus.PLACED: "warning",
    OrderStatus.APPROVED: "info",
    OrderStatus.DELIVERED: "success",
    OrderStatus.CANCELLED: "default",
}
NAMES_SHOWN = 5
NAME_SHOWN = 40  # Characters.
# `17`, `#17`, `order 17`, `approve 17` or `approve order 17`.
NUMBERED = re.compile(r"(?:([a-z]+)\s+)??(?:(order|pet)\s+)?#?(\d{1,19})", re.ASCII | re.IGNORECASE)


def staff(request: HttpRequest) -> str:
    """Return the member of staff, for histories."""
    return f"staff {request.user.get_username()}"


def label(pet: Pet) -> str:
    return f"{short(visible_name(pet.name), NAME_SHOWN)} ({pet.pk})"


def numbered(term: str, kind: str) -> tuple[str, int | None]:
    """Return the verb in front, if there is one, and the id; None if the text names nothing of the kind."""
    found = NUMBERED.fullmatch(term)
    if found is None or (found[2] or kind).lower() != kind:
        return "", None
    return (found[1] or "").lower(), row_id(found[3])


def steps_of(row: Order | Pet) -> list[Entry]:
    """Return the last steps of a row, the newest first."""
    return [
        Entry(event.at, in_words(event.from_status, event.to_status), event.by, event.reason)
        for event in row.events.all()[:MOST_SHOWN]
    ]


def in_words(before: str, after: str) -> str:
    if before == after:
        return "ship date set"
    return f"{before} → {after}" if before else after


def a_few(rows: Sequence[str]) -> str:
    """Return the first rows, and how many more there are."""
    more = len(rows) - NAMES_SHOWN
    return ", ".join(rows[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Verb:
    """What staff do to rows."""

    description: str  # On buttons and in the list of actions.
    done: str
    _: KW_ONLY
    form: type[forms.Form] = forms.Form
    question: Question | None = None  # Asked first.


@dataclass
class Outcome:
    """What a verb was done to, and why not to the others."""

    done: list[Any] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)  # The rows as people read them, by reason.

    def skip(self, reason: str, row: str) -> None:
        self.skipped.setdefault(reason, []).append(row)

    def sentences(self) -> list[str]:
        """Return one for each reason: `2 skipped, Bella (12), Max (14): sold pets can only be returned`."""
        return [f"{len(rows)} skipped, {a_few(rows)}: {reason}." for reason, rows in self.skipped.items()]


class ActingAdmin(BigTableAdmin):
    """Pages of rows that have a status, and that staff do something to, many at once."""

    verbs: Mapping[str, Any]

    @display(description="status", label=COLOURS)
    def status_badge(self, row: Order | Pet) -> tuple[str, str]:
        return row.status, row.get_status_display()

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return the verbs alone; what can be deleted is deleted one by one."""
        may = self.has_change_permission(request) and IS_POPUP_VAR not in request.GET
        do = type(self).act_on_chosen
        return {
            name: (partial(do, name=name), name, verb.description)
            for name, verb in self.verbs.items()
            if may
        }

    def act_on_chosen(self, request: HttpRequest, rows: QuerySet[Any], *, name: str) -> HttpResponse | None:
        """Do it to the chosen rows; ask first where the verb has a question, or not all rows were seen."""
        verb, chosen = self.verbs[name], list(rows)
        act = partial(self.carry_out, request, chosen, verb)
        unseen = Question(f"{verb.description}: {{}}", verb.description, "") if is_across(request) else None
        if (question := verb.question or unseen) is None:
            return act({})
        back, words = request.get_full_path(), [(row.pk, self.in_words(row)) for row in chosen]
        many = counted(len(chosen), str(self.opts.verbose_name), str(self.opts.verbose_name_plural))
        question = question.about(many)
        return confirm(self, request, question, verb.form, act, back=back, rows=words, action=name)

    def carry_out(self, request: HttpRequest, rows: list[Any], verb: Any, given: dict[str, Any]) -> None:
        """Do it, given what was filled in, and say what was done and what was not."""
        raise NotImplementedError

    def in_words(self, row: Any) -> str:
        """Return a row as the page that asks shows it."""
        raise NotImplementedError

    def tell(self, request: HttpRequest, outcome: Outcome, done: str) -> None:
        """Say what was done, if anything was, and what was not."""
        if outcome.done:
            self.message_user(request, done, messages.SUCCESS)
        for sentence in outcome.sentences():
            self.message_user(request, sentence, messages.WARNING)


class SafeAutocompleteForm(AutocompleteDropdownForm):
    widget = SafeAutocompleteSelect


class SearchedFilter(AutocompleteSelectFilter):
    """A filter by a related row, which is searched and not chosen from a list of all."""

    form_class = SafeAutocompleteForm
