"""The tabs of the list of orders, one for each stage, with the number of orders."""

from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import Q
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from inventory.models import Order, Stage
from inventory.status import inline_values
from inventory.stock import Stock, get_stock
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.dashboard import list_url
from petstore.db.identity import is_postgresql

MAX_EXACT_COUNT = 1_000


class StageFilter(ChoiceFilter, DropdownFilter):
    title = "stage"
    parameter_name = "stage"
    options = Stage.choices

    def get_condition(self, chosen: str) -> Q:
        return inline_values(Stage(chosen).condition)


class Tab(NamedTuple):
    label: str
    link: str
    count_text: str
    is_current: bool


def build_tabs(request: HttpRequest) -> list[Tab]:
    current = request.GET.get(StageFilter.parameter_name, "")
    return [Tab("All", list_url("inventory_order"), "", not request.GET)] + [
        Tab(stage.label, list_url("inventory_order", stage=stage), count.text, current == stage)
        for stage, count in count_orders_by_stage(get_stock()).items()
    ]


class StageCount(NamedTuple):
    """The current number of orders; above MAX_EXACT_COUNT, that of the latest stock count."""

    at_least: int
    is_exact: bool

    @property
    def text(self) -> str:
        return f"{self.at_least:,}{'' if self.is_exact else '+'}"


def count_orders_by_stage(stock: Stock | None, stages: Iterable[Stage] = Stage) -> dict[Stage, StageCount]:
    """Count with one query for each stage."""
    # With this order, PostgreSQL uses the index of the stage. SQLite would sort.
    ordering = ["id"] if is_postgresql() else []
    counts = {}
    for stage in stages:
        orders = Order.objects.filter(inline_values(stage.condition)).order_by(*ordering)
        count = orders[: MAX_EXACT_COUNT + 1].count()
        is_exact = count <= MAX_EXACT_COUNT
        if not is_exact:
            count = max(MAX_EXACT_COUNT, stock.orders.get(stage, 0) if stock else 0)
        counts[stage] = StageCount(count, is_exact)
    return counts
