"""Shared by the admin pages of pets, orders and categories, mainly actions on many rows."""

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
from petstore.backoffice.changelist import BigTableAdmin, parse_id, selects_across
from petstore.backoffice.confirmation import Confirmation, confirm
from petstore.backoffice.forms import SafeAutocompleteSelect
from petstore.backoffice.history import MAX_ENTRIES, HistoryEntry
from petstore.backoffice.text import pluralize, truncate
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
    return f"staff {request.user.get_username()}"


def label(pet: Pet) -> str:
    return f"{truncate(visible_name(pet.name), NAME_SHOWN)} ({pet.pk})"


def parse_reference(term: str, kind: str) -> tuple[str, int | None]:
    """Split into the action, or "", and the ID, which is None if the term names no row of this kind."""
    found = NUMBERED.fullmatch(term)
    if found is None or (found[2] or kind).lower() != kind:
        return "", None
    return (found[1] or "").lower(), parse_id(found[3])


def status_history(row: Order | Pet) -> list[HistoryEntry]:
    return [
        HistoryEntry(one.at, describe_transition(one.from_status, one.to_status), one.by, one.reason)
        for one in row.events.all()[:MAX_ENTRIES]
    ]


def describe_transition(before: str, after: str) -> str:
    if before == after:
        return "ship date set"
    return f"{before} → {after}" if before else after


def abbreviate(rows: Sequence[str]) -> str:
    more = len(rows) - NAMES_SHOWN
    return ", ".join(rows[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class RowAction:
    """An action on one or many rows."""

    description: str  # For buttons and the list of actions.
    done: str  # The past participle.
    _: KW_ONLY
    form: type[forms.Form] = forms.Form
    question: Confirmation | None = None  # For confirmation.

    def reason_to_skip(self, row: Any) -> tuple[str, str] | None:
        """Return the reason and the label of the row, or None if the action applies."""
        raise NotImplementedError

    def act(self, row: Any, by: str, given: dict[str, Any]) -> None:
        """Perform the action. `given` is the cleaned data of the form."""
        raise NotImplementedError

    def entry(self, given: dict[str, Any]) -> str:
        """Return the message for the audit trail."""
        return str(given.get("reason", ""))


class RowActionsAdmin(BigTableAdmin):
    """Admin of rows with a status and actions."""

    row_actions: Mapping[str, RowAction]

    @display(description="status", label=COLOURS)
    def status_badge(self, row: Order | Pet) -> tuple[str, str]:
        return row.status, row.get_status_display()

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer only `row_actions`, without Django's bulk deletion."""
        may = self.has_change_permission(request) and IS_POPUP_VAR not in request.GET
        do = type(self).act_on_chosen
        return {
            name: (partial(do, name=name), name, action.description)
            for name, action in self.row_actions.items()
            if may
        }

    def act_on_chosen(self, request: HttpRequest, rows: QuerySet[Any], *, name: str) -> HttpResponse | None:
        """Confirm first if the action has a question, or if rows of other pages are selected."""
        action, chosen = self.row_actions[name], list(rows)
        act = partial(self.carry_out, request, chosen, action)
        plain = Confirmation(f"{action.description}: {{}}", action.description, "")
        unseen = plain if selects_across(request) else None
        if (question := action.question or unseen) is None:
            return act({})
        back, words = request.get_full_path(), [(row.pk, self.describe(row)) for row in chosen]
        question = question.about(self.number_of(chosen))
        return confirm(self, request, question, action.form, act, back=back, rows=words, action=name)

    def carry_out(
        self, request: HttpRequest, rows: list[Any], action: RowAction, given: dict[str, Any]
    ) -> None:
        """Perform the action on each row in a transaction of its own, and report the results."""
        done: list[Any] = []
        skipped: dict[str, list[str]] = defaultdict(list)  # Labels by reason.
        for index, row in enumerate(rows):
            try:
                with transaction.atomic():
                    # A client may have ordered or cancelled since the page was loaded.
                    row.refresh_from_db(from_queryset=self.model._base_manager.select_for_update())
                    if reason_to_skip := action.reason_to_skip(row):
                        reason, words = reason_to_skip
                        skipped[reason].append(words)
                        continue
                    action.act(row, staff(request), given)
                    self.log_change(request, row, action.entry(given))
            except self.model.DoesNotExist:
                skipped["they no longer exist"].append(f"{self.opts.verbose_name} {row.pk}")
            except Error:
                logger.exception("The database failed while %s was being %s.", row, action.done)
                self.message_user(request, self.failure_message(rows[index:], action), messages.ERROR)
                break
            else:
                done.append(row)
        if done:
            self.message_user(request, f"{self.subject(done)} {action.done}.", messages.SUCCESS)
        for reason, names in skipped.items():
            text = f"{len(names)} skipped, {abbreviate(names)}: {reason}."
            self.message_user(request, text, messages.WARNING)

    def subject(self, rows: list[Any]) -> str:
        """Return the subject of the success message."""
        return self.number_of(rows)

    def number_of(self, rows: list[Any], which: str = "") -> str:
        one, many = f"{which}{self.opts.verbose_name}", f"{which}{self.opts.verbose_name_plural}"
        return pluralize(len(rows), one, many)

    def failure_message(self, left: list[Any], action: RowAction) -> str:
        """Explain which of the remaining rows are in doubt, and which are unchanged."""
        first, *others = left
        text = f"The database failed at {first}. Check whether it is {action.done}."
        if not others:
            return text
        names = abbreviate([str(row) for row in others])
        return f"{text} Unchanged: {self.number_of(others, 'other ')} ({names}). Try again."

    def describe(self, row: Any) -> str:
        """Describe a row for the confirmation page."""
        raise NotImplementedError


class SafeAutocompleteForm(AutocompleteDropdownForm):
    widget = SafeAutocompleteSelect


class SearchedFilter(AutocompleteSelectFilter):
    """A filter by a related row, with autocomplete."""

    form_class = SafeAutocompleteForm
