"""The cards about orders and pets."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest
from django.urls import reverse

from inventory.models import OrderStatus, PetStatus
from inventory.stock import Stock, snapshot
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.dashboard import Card, Step, listing, makes_cards
from petstore.backoffice.navigation import may_view
from petstore.backoffice.wording import counted

MOST_CATEGORIES = 12  # In the chart, those with the most animals.
STATUS_COLOURS = {
    PetStatus.AVAILABLE: "--chart-1",
    PetStatus.PENDING: "--chart-2",
    PetStatus.SOLD: "--chart-5",
}


@makes_cards
def cards(request: HttpRequest) -> Iterator[Card]:
    sees_orders, sees_pets = may_view(request, "inventory.order"), may_view(request, "inventory.pet")
    stock = snapshot() if sees_orders or sees_pets else None
    if sees_orders:
        yield orders(request, stock)
    if sees_pets:
        yield pets(request, stock)


def orders(request: HttpRequest, stock: Stock | None) -> Card:
    if stock is None:
        return Card("orders", "left", 1, {})
    placed = listing("inventory_order", status__exact=OrderStatus.PLACED)
    approved = listing("inventory_order", status__exact=OrderStatus.APPROVED)
    changes = request.user.has_perm("inventory.change_order")
    steps = []
    if stock.orders_placed:
        text = counted(stock.orders_placed, "order waits for approval.", "orders wait for approval.")
        steps.append(Step(1, "approval", text, "Approve" if changes else "See the orders", placed))
    if stock.orders_approved:
        text = counted(stock.orders_approved, "approved order waits", "approved orders wait")
        verb = "Ship or deliver" if changes else "See the orders"
        steps.append(Step(1, "local_shipping", f"{text} to be shipped or delivered.", verb, approved))
    waiting = [
        ("Placed", "wait for approval", f"{stock.orders_placed:,}", placed),
        ("Approved", "wait to be shipped or delivered", f"{stock.orders_approved:,}", approved),
    ]
    facts = {"counted_at": stock.counted_at, "waiting": waiting, "link": listing("inventory_order")}
    return Card("orders", "left", 1, facts, steps)


def pets(request: HttpRequest, stock: Stock | None) -> Card:
    if stock is None:
        return Card("pets", "right", 1, {})
    chart = stock_chart(stock)
    facts = {
        "counted_at": stock.counted_at,
        "chart": chart if chart.total else None,
        "categories_left_out": len(stock.categories) - len(chart.labels),
        "link": listing("inventory_pet"),
    }
    add = Step(4, "pets", "The shop has no pets.", "Add the first pet", reverse("admin:inventory_pet_add"))
    asks = not chart.total and request.user.has_perm("inventory.add_pet")
    return Card("pets", "right", 1, facts, [add] if asks else [])


def stock_chart(stock: Stock) -> BarChart:
    """Return the animals of the largest categories, a bar for each; the totals are of all."""
    kept = [row for row in stock.categories if row.total]
    shown = sorted(kept, key=lambda row: -row.total)[:MOST_CATEGORIES]

    def series(status: PetStatus) -> Series:
        return Series(
            status.label,
            STATUS_COLOURS[status],
            [getattr(row, status.value) for row in shown],
            listing("inventory_pet", status__exact=status.value),
            [
                listing("inventory_pet", category__id__exact=row.category_id, status__exact=status.value)
                for row in shown
            ],
            stock.pets(status.value),
        )

    return BarChart(
        "Pets by category and status",
        "pets",
        "Category",
        [row.name for row in shown],
        [series(status) for status in PetStatus],
        [listing("inventory_pet", category__id__exact=row.category_id) for row in shown],
        lying=True,
    )
