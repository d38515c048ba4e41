"""What the pages of pets, orders and categories share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.contrib.filters.forms import AutocompleteDropdownForm

from inventory.models import Order, Pet
from petstore.backoffice.history import MOST_SHOWN, Entry
from petstore.backoffice.model_admin import SafeAutocompleteSelect


def staff(request: HttpRequest) -> str:
    """Return the member of staff, for histories."""
    return f"staff {request.user.get_username()}"


def steps_of(row: Order | Pet) -> list[Entry]:
    """Return the last steps of a row, the newest first."""
    return [
        Entry(event.at, in_words(event.from_status, event.to_status), event.by, event.reason)
        for event in row.events.all()[:MOST_SHOWN]
    ]


def in_words(before: str, after: str) -> str:
    if before == after:
        return "to be shipped"
    return f"{before} → {after}" if before else after


def list_action(name: str, description: str) -> Callable[..., Any]:
    """Return an action of a list, for which its pages have `act_on_chosen`."""

    @admin.action(description=description, permissions=["change"])
    def act(pages: Any, request: HttpRequest, chosen: QuerySet[Any]) -> HttpResponse | None:
        response: HttpResponse | None = pages.act_on_chosen(request, chosen, name)
        return response

    act.__name__ = name
    return act


class SafeAutocompleteForm(AutocompleteDropdownForm):
    widget = SafeAutocompleteSelect

    class Media(AutocompleteDropdownForm.Media):
        pass


class SearchedFilter(AutocompleteSelectFilter):
    """A filter by a related row, which is searched and not chosen from a list of all."""

    form_class = SafeAutocompleteForm
