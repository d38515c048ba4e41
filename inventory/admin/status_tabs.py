"""The list of orders as a work list: a tab for each stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter

from inventory.models import Order, OrderStatus, Stage
from inventory.stock import Stock, snapshot
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.dashboard import listing
from petstore.db.identity import is_postgresql

MOST_COUNTED = 1_000  # Orders of a stage that a page counts; its index has them together.


class StageFilter(ChoiceFilter, DropdownFilter):
    title = "stage"
    parameter_name = "stage"
    offered = Stage.choices

    def condition(self, chosen: str) -> Q:
        return literally(Stage(chosen).orders)


class Tab(NamedTuple):
    label: str
    link: str
    number: str
    is_current: bool


def tabs(request: HttpRequest) -> list[Tab]:
    """Return a tab for all orders, and one for each stage with its number."""
    chosen, numbers = request.GET.get(StageFilter.parameter_name, ""), in_stages(snapshot())
    return [Tab("All", listing("inventory_order"), "", not request.GET)] + [
        Tab(stage.label, listing("inventory_order", stage=stage), number.text, chosen == stage)
        for stage, number in numbers.items()
    ]


def example(request: HttpRequest) -> Order | None:
    """Return an order such as those of the tab that is chosen; None if it is the one of all orders."""
    chosen = request.GET.get(StageFilter.parameter_name)
    if chosen not in Stage.values:
        return None
    ends = {Stage.TO_APPROVE: OrderStatus.PLACED, Stage.DONE: OrderStatus.DELIVERED}
    shipped = timezone.now() if chosen == Stage.SHIPPED else None
    return Order(status=ends.get(Stage(chosen), OrderStatus.APPROVED), ship_date=shipped)


class Number(NamedTuple):
    """How many orders there are: now, or when they were last counted where there are too many."""

    at_least: int
    is_exact: bool

    @property
    def text(self) -> str:
        return f"{self.at_least:,}{'' if self.is_exact else '+'}"


def in_stages(stock: Stock | None, stages: Iterable[Stage] = Stage) -> dict[Stage, Number]:
    """Return the number of each stage's orders, which follows what one has just done. A query for each."""
    # PostgreSQL goes along the stage's index, where it might walk all orders; SQLite would sort them first.
    along = ["id"] if is_postgresql() else []
    numbers = {}
    for stage in stages:
        orders = Order.objects.filter(literally(stage.orders)).order_by(*along)
        found = orders[: MOST_COUNTED + 1].count()
        counted = stock.orders[stage] if stock else 0
        exact = found <= MOST_COUNTED
        numbers[stage] = Number(found if exact else max(MOST_COUNTED, counted), exact)
    return numbers


def literally(condition: Q) -> Q:
    """Return a condition with its words in the SQL itself, as partial indexes need in prepared ones."""
    parts = cast("list[tuple[str, Any]]", condition.children)
    return Q(*((name, in_sql(value)) for name, value in parts))


def in_sql(value: Any) -> Any:
    """Return one of the model's own words, or several, as SQL; anything else as it is."""
    if isinstance(value, tuple):
        return [in_sql(one) for one in value]
    return RawSQL(f"'{value}'", ()) if isinstance(value, OrderStatus) else value  # noqa: S611  Constants.
