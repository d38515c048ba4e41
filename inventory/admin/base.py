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

from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent, PetStatus, TransitionError
from petstore.api.int64 import parse_id
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
    OrderStatus.PLACED: "warning",
    OrderStatus.APPROVED: "info",
    OrderStatus.DELIVERED: "success",
    OrderStatus.CANCELLED: "default",
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
def status_badge(row: Order | Pet) -> tuple[str, str]:
    return row.status, row.status_label if isinstance(row, Order) else row.get_status_display()


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


def list_some(texts: Sequence[str], separator: str) -> str:
    unlisted = len(texts) - MAX_LISTED
    return separator.join(texts[:MAX_LISTED]) + (f" and {unlisted} more" if unlisted > 0 else "")


def run_action(
    modeladmin: ActionFormsMixin,
    request: HttpRequest,
    queryset: QuerySet[Any],
    change: Callable[..., None],
    *,
    done: str,
    form: type[ActionForm] | None = None,
) -> HttpResponse | None:
    """Call `change(row, **data, by=...)` for each row, with the data of the form.

    Without a form, only GET requests and selections across pages ask for confirmation. `done` is the past
    participle for messages.
    """
    rows, action = list(queryset), request.POST.get("action", "")
    back = request.get_full_path() if action else get_next_url(modeladmin, request, rows[0])

    def act(filled: ActionForm | None) -> HttpResponse | None:
        data = filled.cleaned_data if filled else {}
        change_rows(modeladmin, request, rows, change, done=done, data=data)
        return None if action else redirect(back)

    if form is None and request.method == "POST" and not selects_all_pages(request):
        return act(None)
    subject = format_count(len(rows), str(modeladmin.opts.verbose_name)) if action else rows[0]
    chosen = [(row.pk, describe(row)) for row in rows]
    context = {"back": back, "rows": chosen, "object": None if action else rows[0]}
    return modeladmin.confirm(request, form or ContinueForm, act, subject, action=action, **context)


def get_next_url(modeladmin: ActionFormsMixin, request: HttpRequest, row: Any) -> str:
    return modeladmin.admin_site.get_next_url(request) if "next" in request.GET else change_url(row)


def change_rows(
    modeladmin: ActionFormsMixin,
    request: HttpRequest,
    rows: list[Any],
    change: Callable[..., None],
    *,
    done: str,
    data: dict[str, Any],
) -> None:
    """Change each row in a transaction of its own, and report the results."""
    name, changed = str(modeladmin.opts.verbose_name), []
    errors: list[str] = []
    for index, row in enumerate(rows):
        try:
            with transaction.atomic():
                # A client may have ordered or cancelled since the page was loaded.
                row.refresh_from_db(from_queryset=type(row)._base_manager.select_for_update())
                change(row, **data, by=get_actor_name(request))
                modeladmin.log_change(request, row, data.get("reason") or f"{done.capitalize()}.")
        except type(row).DoesNotExist:
            errors.append(f"{name.capitalize()} {row.pk} was deleted.")
        except TransitionError as error:
            errors.append(str(error.message))
        except Error:
            logger.exception("The database failed while %s was being %s.", row, done)
            text = f"The database failed at {row}. Check whether it is {done}."
            if unchanged := rows[index + 1 :]:
                names = list_some([str(other) for other in unchanged], ", ")
                text += f" Unchanged: {format_count(len(unchanged), f'other {name}')} ({names}). Try again."
            modeladmin.message_user(request, text, messages.ERROR)
            break
        else:
            changed.append(row)
    if changed:
        is_one = len(changed) == 1
        subject = f"{name.capitalize()} {changed[0].pk} is" if is_one else format_count(len(changed), name)
        modeladmin.message_user(request, f"{subject} {done}.", messages.SUCCESS)
    if errors:
        text = f"{len(errors)} not {done}. {list_some(errors, ' ')}"
        modeladmin.message_user(request, text, messages.WARNING)


class ContinueForm(ActionForm):
    title = "Change {}"
    button = "Continue"


class SafeAutocompleteForm(AutocompleteDropdownForm):
    widget = SafeAutocompleteSelect


class AutocompleteFilter(AutocompleteSelectFilter):
    form_class = SafeAutocompleteForm
