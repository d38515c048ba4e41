"""The list of orders as a work list: a tab for each stage."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from inventory.models import OrderStatus, Stage
from inventory.stock import snapshot
from petstore.backoffice.dashboard import listing
from petstore.backoffice.filters import ChoiceFilter


class StageFilter(ChoiceFilter, DropdownFilter):
    title = "stage"
    parameter_name = "stage"
    offered = Stage.choices

    def condition(self, chosen: str) -> Q:
        return literally(Stage(chosen).orders)


class Tab(NamedTuple):
    label: str
    link: str
    number: int | None  # None where it was never counted.
    is_current: bool


def tabs(request: HttpRequest) -> list[Tab]:
    """Return a tab for all orders, and one for each stage with its number when last counted."""
    stock, chosen = snapshot(), request.GET.get(StageFilter.parameter_name, "")
    return [Tab("All", listing("inventory_order"), None, not request.GET)] + [
        Tab(
            stage.label,
            listing("inventory_order", stage=stage),
            stock.orders[stage] if stock else None,
            chosen == stage,
        )
        for stage in Stage
    ]


def literally(condition: Q) -> Q:
    """Return a condition with its words in the SQL itself, as partial indexes need in prepared ones."""
    parts = cast("list[tuple[str, Any]]", condition.children)
    return Q(*((name, in_sql(value)) for name, value in parts))


def in_sql(value: Any) -> Any:
    """Return one of the model's own words, or several, as SQL; anything else as it is."""
    if isinstance(value, tuple):
        return [in_sql(one) for one in value]
    return RawSQL(f"'{value}'", ()) if isinstance(value, OrderStatus) else value  # noqa: S611  Constants.
