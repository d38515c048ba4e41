"""Shared by the admin pages of pets and orders: actions on rows, references to rows, histories."""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.db import Error, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.contrib.filters.forms import AutocompleteDropdownForm
from unfold.decorators import display

from inventory.models import Order, Pet, PetStatus, Stage, TransitionError
from petstore.api.int64 import parse_id
from petstore.audit import Action, Actor, get_field_values, record
from petstore.audit.forms import ActionForm
from petstore.backoffice.changelist import selects_all_pages
from petstore.backoffice.confirmation import ActionFormsMixin
from petstore.backoffice.forms import SafeAutocompleteSelect
from petstore.backoffice.history import MAX_ENTRIES, HistoryEntry
from petstore.backoffice.model_admin import change_url
from petstore.db.names import visible_name
from petstore.text import format_count, truncate

logger = logging.getLogger(__name__)

STATUS_COLOURS: dict[str, str] = {
    PetStatus.AVAILABLE: "success",
    PetStatus.PENDING: "warning",
    PetStatus.SOLD: "default",
    Stage.TO_APPROVE: "warning",
    Stage.TO_SHIP: "info",
    Stage.SCHEDULED: "info",
    Stage.SHIPPED: "info",
    Stage.DELIVERED: "success",
    Stage.CANCELLED: "default",
    Stage.RETURNED: "default",
}
MAX_LISTED = 5
MAX_NAME_LENGTH = 40
# `17`, `#17`, `order 17`, `approve 17` or `approve order 17`.
REFERENCE = re.compile(r"(?:([a-z]+)\s+)??(?:(order|pet)\s+)?#?(\d{1,19})", re.ASCII | re.IGNORECASE)


def get_actor_name(request: HttpRequest) -> str:
    return f"staff {request.user.get_username()}"


def describe_pet(pet: Pet) -> str:
    return f"{truncate(visible_name(pet.name), MAX_NAME_LENGTH)} ({pet.pk})"


def describe(row: Order | Pet) -> str:
    """Describe a row for the confirmation page."""
    if isinstance(row, Pet):
        return describe_pet(row)
    return f"Order {row.pk}: {describe_pet(row.pet)} for {row.account}"


@display(description="status", label=STATUS_COLOURS)
def status_badge(pet: Pet) -> tuple[str, str]:
    return pet.status, pet.get_status_display()


@display(description="stage", label=STATUS_COLOURS)
def stage_badge(order: Order) -> tuple[str, str]:
    return order.stage, order.stage.label


def parse_reference(term: str, model_name: str) -> tuple[str, int | None]:
    """Split a term into an action, or "", and an ID, which is None unless it refers to this model."""
    match = REFERENCE.fullmatch(term)
    if match is None or (match[2] or model_name).lower() != model_name:
        return "", None
    return (match[1] or "").lower(), parse_id(match[3])


def get_status_history(obj: Order | Pet) -> list[HistoryEntry]:
    return [
        HistoryEntry(event.at, str(event), event.actor, event.reason)
        for event in obj.events.all()[:MAX_ENTRIES]
    ]


def list_some(texts: Sequence[str], separator: str) -> str:
    unlisted = len(texts) - MAX_LISTED
    return separator.join(texts[:MAX_LISTED]) + (f" and {unlisted} more" if unlisted > 0 else "")


class RowAction:
    """An action that calls `change(row, **data, by=...)` for each row, with the data of its form.

    Without a form, only GET requests and selections across pages ask for confirmation. `done` is the past
    participle for messages.
    """

    allowed_permissions = ["change"]

    def __init__(
        self, name: str, label: str, change: Callable[..., None], *, done: str, form: Any = None
    ) -> None:
        self.__name__, self.short_description = name, label
        self.change, self.done = change, done
        self.form_class: type[ActionForm] | None = form

    def __call__(
        self, modeladmin: ActionFormsMixin, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        rows, action = list(queryset), request.POST.get("action", "")
        back = request.get_full_path() if action else get_next_url(modeladmin, request, rows[0])

        def act(form: ActionForm | None) -> HttpResponse | None:
            self.change_rows(modeladmin, request, rows, form.cleaned_data if form else {})
            return None if action else redirect(back)

        if self.form_class is None and request.method == "POST" and not selects_all_pages(request):
            return act(None)
        subject = format_count(len(rows), str(modeladmin.opts.verbose_name)) if action else rows[0]
        chosen = [(row.pk, describe(row)) for row in rows]
        context = {"back": back, "rows": chosen, "object": None if action else rows[0]}
        form_class = self.form_class or ContinueForm
        return modeladmin.confirm(request, form_class, act, subject, action=action, **context)

    def check(self, row: Any) -> None:
        """Raise TransitionError if the action does not apply to the row."""

    def get_audit_action(self, row: Any) -> str:
        """Name what has happened to the changed row in the audit trail."""
        return Action.CHANGED

    def change_rows(
        self, modeladmin: ActionFormsMixin, request: HttpRequest, rows: list[Any], data: dict[str, Any]
    ) -> None:
        """Change each row in a transaction of its own, and report the results."""
        name, done, actor = str(modeladmin.opts.verbose_name), self.done, Actor.from_request(request)
        changed, errors = [], []
        for index, row in enumerate(rows):
            try:
                with transaction.atomic():
                    # A client may have ordered or cancelled since the page was loaded.
                    row.refresh_from_db(from_queryset=type(row)._base_manager.select_for_update())
                    self.check(row)
                    before = get_field_values(row)
                    self.change(row, **data, by=get_actor_name(request))
                    after, reason = get_field_values(row), data.get("reason", "")
                    record(
                        actor, row, self.get_audit_action(row), before=before, after=after, reason=reason
                    )
            except type(row).DoesNotExist:
                errors.append(f"{name.capitalize()} {row.pk} was deleted.")
            except TransitionError as error:
                errors.append(str(error.message))
            except Error:
                logger.exception("The database failed while %s was being %s.", row, done)
                text = f"The database failed at {row}. Check whether it is {done}."
                if unchanged := [str(other) for other in rows[index + 1 :]]:
                    count = format_count(len(unchanged), f"other {name}")
                    text += f" Unchanged: {count} ({list_some(unchanged, ', ')}). Try again."
                modeladmin.message_user(request, text, messages.ERROR)
                break
            else:
                changed.append(row)
        if changed:
            count = format_count(len(changed), name)
            subject = f"{name.capitalize()} {changed[0].pk} is" if len(changed) == 1 else count
            modeladmin.message_user(request, f"{subject} {done}.", messages.SUCCESS)
        if errors:
            text = f"{len(errors)} not {done}. {list_some(errors, ' ')}"
            modeladmin.message_user(request, text, messages.WARNING)


def get_next_url(modeladmin: ActionFormsMixin, request: HttpRequest, row: Any) -> str:
    return modeladmin.admin_site.get_next_url(request) if "next" in request.GET else change_url(row)


class ContinueForm(ActionForm):
    title = "Change {}"
    button = "Continue"


class SafeAutocompleteForm(AutocompleteDropdownForm):
    widget = SafeAutocompleteSelect


class AutocompleteFilter(AutocompleteSelectFilter):
    form_class = SafeAutocompleteForm
