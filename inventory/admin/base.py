"""Shared by the admin pages of pets and orders: actions on rows, references to rows, histories."""

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

from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent, PetStatus, TransitionError
from petstore.backoffice.changelist import BigTableAdmin, parse_id, selects_all_pages
from petstore.backoffice.confirmation import Confirmation, confirm
from petstore.backoffice.forms import SafeAutocompleteSelect
from petstore.backoffice.history import MAX_ENTRIES, HistoryEntry
from petstore.db.names import visible_name
from petstore.text import format_count, truncate

logger = logging.getLogger(__name__)

STATUS_COLOURS: dict[str, str] = {
    PetStatus.AVAILABLE: "success",
    PetStatus.PENDING: "warning",
    PetStatus.SOLD: "default",
    OrderStatus.PLACED: "warning",
    OrderStatus.APPROVED: "info",
    OrderStatus.DELIVERED: "success",
    OrderStatus.CANCELLED: "default",
}
MAX_LISTED_NAMES = 5
MAX_NAME_LENGTH = 40
# `17`, `#17`, `order 17`, `approve 17` or `approve order 17`.
REFERENCE = re.compile(r"(?:([a-z]+)\s+)??(?:(order|pet)\s+)?#?(\d{1,19})", re.ASCII | re.IGNORECASE)


def get_actor_name(request: HttpRequest) -> str:
    return f"staff {request.user.get_username()}"


def describe_pet(pet: Pet) -> str:
    return f"{truncate(visible_name(pet.name), MAX_NAME_LENGTH)} ({pet.pk})"


def parse_reference(term: str, model_name: str) -> tuple[str, int | None]:
    """Split a term into an action, or "", and an ID, which is None unless it refers to this model."""
    match = REFERENCE.fullmatch(term)
    if match is None or (match[2] or model_name).lower() != model_name:
        return "", None
    return (match[1] or "").lower(), parse_id(match[3])


def get_status_history(obj: Order | Pet) -> list[HistoryEntry]:
    return [
        HistoryEntry(event.at, describe_transition(event), event.actor, event.reason)
        for event in obj.events.all()[:MAX_ENTRIES]
    ]


def describe_transition(event: OrderEvent | PetEvent) -> str:
    if event.from_status == event.to_status:
        return "returned" if event.to_status == OrderStatus.DELIVERED else "ship date set"
    return f"{event.from_status} → {event.to_status}" if event.from_status else event.to_status


def join_names(names: Sequence[str]) -> str:
    unlisted = len(names) - MAX_LISTED_NAMES
    suffix = f" and {unlisted} more" if unlisted > 0 else ""
    return ", ".join(names[:MAX_LISTED_NAMES]) + suffix


@dataclass(frozen=True)
class RowAction:
    """An action on one or more rows."""

    description: str  # For buttons and the list of actions.
    past_participle: str
    _: KW_ONLY
    form: type[forms.Form] = forms.Form
    confirmation: Confirmation | None = None

    def get_skip_reason(self, obj: Any) -> tuple[str, str] | None:
        """Return the reason and the label of the row, or None if the action applies."""
        raise NotImplementedError

    def perform(self, obj: Any, by: str, cleaned_data: dict[str, Any]) -> None:
        raise NotImplementedError

    def get_audit_reason(self, cleaned_data: dict[str, Any]) -> str:
        return str(cleaned_data.get("reason", ""))

    def get_confirmation(self, subject: str, default_warning: str = "") -> Confirmation:
        default = Confirmation(f"{self.description}: {{}}", self.description, default_warning)
        return (self.confirmation or default).with_subject(subject)


class RowActionsAdmin(BigTableAdmin):
    """Admin of rows with a status and actions."""

    row_actions: Mapping[str, RowAction]

    @display(description="status", label=STATUS_COLOURS)
    def status_badge(self, obj: Order | Pet) -> tuple[str, str]:
        return obj.status, obj.status_label if isinstance(obj, Order) else obj.get_status_display()

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer only `row_actions`, without Django's bulk deletion."""
        if not self.has_change_permission(request) or IS_POPUP_VAR in request.GET:
            return {}
        run_action = type(self).run_action
        return {
            name: (partial(run_action, name=name), name, action.description)
            for name, action in self.row_actions.items()
        }

    def run_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *, name: str
    ) -> HttpResponse | None:
        """Confirm first if the action requires it, or if rows of other pages are selected."""
        action, objs = self.row_actions[name], list(queryset)
        perform = partial(self.perform_action, request, objs, action)
        if action.confirmation is None and not selects_all_pages(request):
            return perform({})
        confirmation = action.get_confirmation(self.format_count(objs))
        rows = [(obj.pk, self.describe(obj)) for obj in objs]
        back = request.get_full_path()
        return confirm(self, request, confirmation, action.form, perform, back=back, rows=rows, action=name)

    def perform_action(
        self, request: HttpRequest, objs: list[Any], action: RowAction, cleaned_data: dict[str, Any]
    ) -> None:
        """Perform the action on each row in a transaction of its own, and report the results."""
        changed: list[Any] = []
        skipped: dict[str, list[str]] = defaultdict(list)  # Labels by reason.
        for index, obj in enumerate(objs):
            try:
                with transaction.atomic():
                    # A client may have ordered or cancelled since the page was loaded.
                    obj.refresh_from_db(from_queryset=self.model._base_manager.select_for_update())
                    if skip_reason := action.get_skip_reason(obj):
                        skipped[skip_reason[0]].append(skip_reason[1])
                        continue
                    action.perform(obj, get_actor_name(request), cleaned_data)
                    self.log_change(request, obj, action.get_audit_reason(cleaned_data))
            except self.model.DoesNotExist:
                skipped["deleted since this page was loaded"].append(f"{self.opts.verbose_name} {obj.pk}")
            except TransitionError as error:  # Another row that the action needs has changed.
                skipped[error.message.removesuffix(".")].append(str(obj))
            except Error:
                logger.exception("The database failed while %s was being %s.", obj, action.past_participle)
                text = self.get_failure_message(obj, objs[index + 1 :], action)
                self.message_user(request, text, messages.ERROR)
                break
            else:
                changed.append(obj)
        if changed:
            text = f"{self.get_success_subject(changed)} {action.past_participle}."
            self.message_user(request, text, messages.SUCCESS)
        for reason, labels in skipped.items():
            text = f"{len(labels)} skipped, {join_names(labels)}: {reason}."
            self.message_user(request, text, messages.WARNING)

    def get_success_subject(self, objs: list[Any]) -> str:
        return self.format_count(objs)

    def format_count(self, objs: list[Any], adjective: str = "") -> str:
        return format_count(len(objs), f"{adjective}{self.opts.verbose_name}")

    def get_failure_message(self, failed: Any, unchanged: list[Any], action: RowAction) -> str:
        """Explain which row is in doubt, and which are unchanged."""
        text = f"The database failed at {failed}. Check whether it is {action.past_participle}."
        if not unchanged:
            return text
        names = join_names([str(obj) for obj in unchanged])
        return f"{text} Unchanged: {self.format_count(unchanged, 'other ')} ({names}). Try again."

    def describe(self, obj: Any) -> str:
        """Describe a row for the confirmation page."""
        raise NotImplementedError


class SafeAutocompleteForm(AutocompleteDropdownForm):
    widget = SafeAutocompleteSelect


class AutocompleteFilter(AutocompleteSelectFilter):
    form_class = SafeAutocompleteForm
