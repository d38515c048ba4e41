"""Dashboard cards about orders and pets."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest
from django.urls import reverse

from inventory.admin.status_tabs import stage_counts
from inventory.models import PetStatus, Stage
from inventory.stock import Stock, get_stock
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.dashboard import Card, Step, list_url, register_cards
from petstore.backoffice.navigation import may_view
from petstore.db.names import visible_name

MAX_CATEGORIES = 12  # In the chart: the largest.
WAITING = {
    Stage.TO_APPROVE: ("for approval", "approval", "Approve"),
    Stage.TO_SHIP: ("to be shipped", "local_shipping", "Ship"),
    Stage.SHIPPED: ("to be delivered", "inventory", "Deliver"),
}
STATUS_COLOURS = {
    PetStatus.AVAILABLE: "--chart-1",
    PetStatus.PENDING: "--chart-2",
    PetStatus.SOLD: "--chart-5",
}


@register_cards
def cards(request: HttpRequest) -> Iterator[Card]:
    sees_orders, sees_pets = may_view(request, "inventory.order"), may_view(request, "inventory.pet")
    stock = get_stock() if sees_orders or sees_pets else None
    if sees_orders:
        yield orders(request, stock)
    if sees_pets:
        yield pets(request, stock)


def orders(request: HttpRequest, stock: Stock | None) -> Card:
    numbers = stage_counts(stock, WAITING)
    link = {stage: list_url("inventory_order", stage=stage) for stage in Stage}
    changes = request.user.has_perm("inventory.change_order")
    steps = []
    for stage, (meaning, icon, action) in WAITING.items():
        if changes and (number := numbers[stage].at_least):
            text = f"{numbers[stage].text} {'order waits' if number == 1 else 'orders wait'} {meaning}."
            steps.append(Step(1, icon, text, action, link[stage]))
    waiting = [
        (stage.label, f"wait {meaning}", numbers[stage].text, link[stage])
        for stage, (meaning, _, _) in WAITING.items()
    ]
    return Card("orders", "left", 1, {"waiting": waiting, "link": list_url("inventory_order")}, steps)


def pets(request: HttpRequest, stock: Stock | None) -> Card:
    if stock is None:
        return Card("pets", "right", 1, {})
    chart = stock_chart(stock)
    context = {
        "counted_at": stock.counted_at,
        "chart": chart if chart.total else None,
        "categories_left_out": len(stock.categories) - len(chart.labels),
        "link": list_url("inventory_pet"),
    }
    add = Step(4, "pets", "There are no pets yet.", "Add the first pet", reverse("admin:inventory_pet_add"))
    offers_to_add = not chart.total and request.user.has_perm("inventory.add_pet")
    return Card("pets", "right", 1, context, [add] if offers_to_add else [])


def stock_chart(stock: Stock) -> BarChart:
    """Chart the largest categories. The totals include all categories."""
    filled = [row for row in stock.categories if row.total]
    largest = sorted(filled, key=lambda row: -row.total)[:MAX_CATEGORIES]

    def series(status: PetStatus) -> Series:
        return Series(
            status.label,
            STATUS_COLOURS[status],
            [getattr(row, status.value) for row in largest],
            list_url("inventory_pet", status__exact=status.value),
            [
                list_url("inventory_pet", category__id__exact=row.category_id, status__exact=status.value)
                for row in largest
            ],
            stock.count_pets(status.value),
        )

    return BarChart(
        "Pets by category and status",
        "pets",
        "Category",
        [visible_name(row.name) for row in largest],
        [series(status) for status in PetStatus],
        [list_url("inventory_pet", category__id__exact=row.category_id) for row in largest],
        horizontal=True,
    )
