"""What the pages of pets, orders and categories share."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.db import Error, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.contrib.filters.forms import AutocompleteDropdownForm
from unfold.decorators import display

from inventory.models import Order, OrderStatus, Pet, PetStatus
from petstore.backoffice.changelist import BigTableAdmin, is_across, row_id
from petstore.backoffice.confirmation import Question, confirm
from petstore.backoffice.forms import SafeAutocompleteSelect
from petstore.backoffice.history import MOST_SHOWN, Entry
from petstore.backoffice.wording import counted, short
from petstore.db.names import visible_name

logger = logging.getLogger(__name__)

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

    def why_not(self, row: Any) -> tuple[str, str] | None:
        """Return why a row stays as it is, and what it is called; None if it may be done to the row."""
        raise NotImplementedError

    def act(self, row: Any, by: str, given: dict[str, Any]) -> None:
        """Do it, given what was filled in."""
        raise NotImplementedError

    def entry(self, given: dict[str, Any]) -> str:
        """Return the reason that the audit trail gives."""
        return str(given.get("reason", ""))


class ActingAdmin(BigTableAdmin):
    """Pages of rows that have a status, and that staff do something to, many at once."""

    verbs: Mapping[str, Verb]

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
        question = question.about(self.number_of(chosen))
        return confirm(self, request, question, verb.form, act, back=back, rows=words, action=name)

    def carry_out(self, request: HttpRequest, rows: list[Any], verb: Verb, given: dict[str, Any]) -> None:
        """Do it to each row that allows it, each in a transaction; say what was done and what was not."""
        done: list[Any] = []
        skipped: dict[str, list[str]] = defaultdict(list)  # The rows as people read them, by reason.
        for place, row in enumerate(rows):
            try:
                with transaction.atomic():
                    # As it is now: a client may have ordered or cancelled since the page was shown.
                    row.refresh_from_db(from_queryset=self.model._base_manager.select_for_update())
                    if why_not := verb.why_not(row):
                        reason, words = why_not
                        skipped[reason].append(words)
                        continue
                    verb.act(row, staff(request), given)
                    self.log_change(request, row, verb.entry(given))
            except self.model.DoesNotExist:
                skipped["they are no longer there"].append(f"{self.opts.verbose_name} {row.pk}")
            except Error:
                logger.exception("The database failed while %s was to be %s.", row, verb.done)
                self.message_user(request, self.stopped_at(rows[place:], verb), messages.ERROR)
                break
            else:
                done.append(row)
        if done:
            self.message_user(request, f"{self.said(done)} {verb.done}.", messages.SUCCESS)
        for reason, names in skipped.items():
            text = f"{len(names)} skipped, {a_few(names)}: {reason}."
            self.message_user(request, text, messages.WARNING)

    def said(self, rows: list[Any]) -> str:
        """Return the rows as what is said of them begins."""
        return self.number_of(rows)

    def number_of(self, rows: list[Any], which: str = "") -> str:
        one, many = f"{which}{self.opts.verbose_name}", f"{which}{self.opts.verbose_name_plural}"
        return counted(len(rows), one, many)

    def stopped_at(self, left: list[Any], verb: Verb) -> str:
        """Return the sentences about what a failure of the database has left undone."""
        first, *others = left
        text = f"The database failed at {first}: check whether it is {verb.done}."
        if not others:
            return text
        names = a_few([str(row) for row in others])
        return f"{text} Nothing was done to {self.number_of(others, 'other ')} ({names}): try again."

    def in_words(self, row: Any) -> str:
        """Return a row as the page that asks shows it."""
        raise NotImplementedError


class SafeAutocompleteForm(AutocompleteDropdownForm):
    widget = SafeAutocompleteSelect


class SearchedFilter(AutocompleteSelectFilter):
    """A filter by a related row, which is searched and not chosen from a list of all."""

    form_class = SafeAutocompleteForm
