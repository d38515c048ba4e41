"""What the pages of pets, orders and categories share."""

from __future__ import annotations

from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.contrib.filters.forms import AutocompleteDropdownForm

from petstore.backoffice.model_admin import HistoryInline, SafeAutocompleteSelect


def staff(request: HttpRequest) -> str:
    """Return the member of staff, for histories."""
    return f"staff {request.user.get_username()}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 pet`, `2 pets`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


class LastEventsInline(HistoryInline):
    """The last steps of a row, the newest first."""

    fields = readonly_fields = ("at", "from_status", "to_status", "by", "reason")


class SafeAutocompleteForm(AutocompleteDropdownForm):
    """The form of a filter, with a widget that bears any value."""

    widget = SafeAutocompleteSelect

    class Media(AutocompleteDropdownForm.Media):
        pass


class SearchedFilter(AutocompleteSelectFilter):
    """A filter by a related row, which is searched and not chosen from a list of all."""

    form_class = SafeAutocompleteForm
