"""Dashboard cards about orders and pets."""

from collections.abc import Iterator

from django.http import HttpRequest
from django.urls import reverse

from inventory.admin.orders import find_orders, list_actions
from inventory.admin.status_tabs import count_orders_by_stage
from inventory.models import PetStatus, Stage
from inventory.stock import Stock, get_stock
from petstore.backoffice.dashboard import Card, Step, list_url, register_cards
from petstore.backoffice.navigation import may_view
from petstore.charts import BarChart, Series
from petstore.db.names import visible_name

MAX_CHARTED_CATEGORIES = 12
MAX_OLDEST_ORDERS = 5
# What the orders of a stage wait for, and the icon and the link text of the next step.
WAITING_STAGES = {
    Stage.TO_APPROVE: ("for approval", "approval", "Approve"),
    Stage.TO_SHIP: ("to be shipped", "local_shipping", "Ship"),
    Stage.SHIPPED: ("to be delivered", "inventory", "Deliver"),
}
CHART_COLOURS = {
    PetStatus.AVAILABLE: "--chart-1",
    PetStatus.PENDING: "--chart-2",
    PetStatus.SOLD: "--chart-5",
}


@register_cards
def build_cards(request: HttpRequest) -> Iterator[Card]:
    may_view_orders = may_view(request, "inventory.order")
    may_view_pets = may_view(request, "inventory.pet")
    stock = get_stock() if may_view_orders or may_view_pets else None
    if may_view_orders:
        yield build_orders_card(request, stock)
    if may_view_pets:
        yield build_pets_card(request, stock)


def build_orders_card(request: HttpRequest, stock: Stock | None) -> Card:
    counts = count_orders_by_stage(stock, WAITING_STAGES)
    may_change = request.user.has_perm("inventory.change_order")
    waiting, steps = [], []
    for stage, (purpose, icon, verb) in WAITING_STAGES.items():
        count = counts[stage]
        link = list_url("inventory_order", stage=stage)
        waiting.append((stage.label, f"waiting {purpose}", count.text, link))
        if may_change and count.at_least:
            subject = "order is waiting" if count.at_least == 1 else "orders are waiting"
            steps.append(Step(1, icon, f"{count.text} {subject} {purpose}.", verb, link))
    oldest = find_orders(Stage.TO_APPROVE)[:MAX_OLDEST_ORDERS] if may_change else []
    to_approve = [(order, list_actions(order)[:1]) for order in oldest]
    context = {"waiting": waiting, "to_approve": to_approve, "link": list_url("inventory_order")}
    return Card("orders", "left", 1, context, steps)


def build_pets_card(request: HttpRequest, stock: Stock | None) -> Card:
    if stock is None:
        return Card("pets", "right", 1, {})
    chart = build_stock_chart(stock)
    context = {
        "counted_at": stock.counted_at,
        "chart": chart if chart.total else None,
        "categories_left_out": len(stock.categories) - len(chart.labels),
        "link": list_url("inventory_pet"),
    }
    steps = []
    if not chart.total and request.user.has_perm("inventory.add_pet"):
        link = reverse("admin:inventory_pet_add")
        steps.append(Step(4, "pets", "There are no pets yet.", "Add the first pet", link))
    return Card("pets", "right", 1, context, steps)


def build_stock_chart(stock: Stock) -> BarChart:
    """Chart the largest categories. The totals include all categories."""
    with_pets = [category for category in stock.categories if category.total]
    largest = sorted(with_pets, key=lambda category: -category.total)[:MAX_CHARTED_CATEGORIES]
    labels = [visible_name(category.name) for category in largest]
    filters = [{"category__id__exact": category.category_id} for category in largest]
    series = []
    for status in PetStatus:
        counts = [category.pets[status] for category in largest]
        link = list_url("inventory_pet", status__exact=status.value)
        links = [list_url("inventory_pet", **item, status__exact=status.value) for item in filters]
        total = stock.count_pets(status.value)
        series.append(Series(status.label, CHART_COLOURS[status], counts, link, links, total))
    links = [list_url("inventory_pet", **item) for item in filters]
    title = "Pets by category and status"
    return BarChart(title, "pets", "Category", labels, series, links, horizontal=True)
