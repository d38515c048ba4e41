"""Tabs that turn the list of orders into a work list, one for each stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter

from inventory.models import Order, OrderStatus, Stage
from inventory.stock import Stock, get_stock
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.dashboard import list_url
from petstore.db.identity import is_postgresql

MAX_COUNTED = 1_000  # Orders of a stage that are counted exactly.


class StageFilter(ChoiceFilter, DropdownFilter):
    title = "stage"
    parameter_name = "stage"
    options = Stage.choices

    def condition(self, chosen: str) -> Q:
        return with_literals(Stage(chosen).condition)


class Tab(NamedTuple):
    label: str
    link: str
    number: str
    is_current: bool


def tabs(request: HttpRequest) -> list[Tab]:
    chosen, numbers = request.GET.get(StageFilter.parameter_name, ""), stage_counts(get_stock())
    return [Tab("All", list_url("inventory_order"), "", not request.GET)] + [
        Tab(stage.label, list_url("inventory_order", stage=stage), number.text, chosen == stage)
        for stage, number in numbers.items()
    ]


def example(request: HttpRequest) -> Order | None:
    """Return an unsaved order like those of the current tab; None on the tab of all orders."""
    chosen = request.GET.get(StageFilter.parameter_name)
    if chosen not in Stage.values:
        return None
    ends = {Stage.TO_APPROVE: OrderStatus.PLACED, Stage.DONE: OrderStatus.DELIVERED}
    shipped = timezone.now() if chosen == Stage.SHIPPED else None
    return Order(status=ends.get(Stage(chosen), OrderStatus.APPROVED), ship_date=shipped)


class StageCount(NamedTuple):
    """The number of orders now; above MAX_COUNTED, at the last count."""

    at_least: int
    is_exact: bool

    @property
    def text(self) -> str:
        return f"{self.at_least:,}{'' if self.is_exact else '+'}"


def stage_counts(stock: Stock | None, stages: Iterable[Stage] = Stage) -> dict[Stage, StageCount]:
    """Count the orders of each stage now, with a query for each."""
    # The order makes PostgreSQL use the index of the stage. SQLite would sort.
    ordering = ["id"] if is_postgresql() else []
    numbers = {}
    for stage in stages:
        orders = Order.objects.filter(with_literals(stage.condition)).order_by(*ordering)
        found = orders[: MAX_COUNTED + 1].count()
        counted = stock.orders[stage] if stock else 0
        exact = found <= MAX_COUNTED
        numbers[stage] = StageCount(found if exact else max(MAX_COUNTED, counted), exact)
    return numbers


def with_literals(condition: Q) -> Q:
    """Make the values literals, since a prepared statement can't use a partial index with parameters."""
    parts = cast("list[tuple[str, Any]]", condition.children)
    return Q(*((name, as_literal(value)) for name, value in parts))


def as_literal(value: Any) -> Any:
    if isinstance(value, tuple):
        return [as_literal(one) for one in value]
    return RawSQL(f"'{value}'", ()) if isinstance(value, OrderStatus) else value  # noqa: S611  Constants.
