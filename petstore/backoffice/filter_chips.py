"""Chips that show what a list is filtered by. Each is a link that removes its filter."""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Model
from django.utils.text import capfirst


def set_chips(changelist: Any) -> None:
    """Set `chips`, as labels and links, and the link `clear_chips`, which removes all of them."""
    filters = list(find_filters(changelist))
    build_link = changelist.get_query_string
    changelist.chips = [(label, build_link(dict.fromkeys(params))) for label, params in filters]
    changelist.clear_chips = build_link({param: None for _, params in filters for param in params})


def find_filters(changelist: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield label and parameters of the search and of each filter that applies."""
    if changelist.query:
        yield f"Search: {changelist.query}", [SEARCH_VAR]
    for spec in changelist.filter_specs:
        params = spec.expected_parameters()
        if any(any(changelist.filter_params.get(param, ())) for param in params):
            values = [value for choice in spec.choices(changelist) for value in get_selected(choice)]
            if values:  # Else the value is unknown, and the filter ignores it.
                yield f"{capfirst(str(spec.title))}: {', '.join(values)}", params


def get_selected(choice: dict[str, Any]) -> list[str]:
    """Return the label of a choice if it is selected, or the labels of the values in a form of Unfold."""
    if "form" not in choice:
        return [str(choice["display"])] if choice["selected"] else []
    form = choice["form"]
    form.is_valid()
    values = [(form.fields[name], value) for name, value in form.cleaned_data.items() if value]
    return [
        str(value if isinstance(value, Model) else dict(field.choices).get(value, value))
        for field, value in values
    ]
