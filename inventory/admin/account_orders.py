"""The latest orders on the page of an account."""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import reverse

from accounts.admin import accounts
from accounts.admin.accounts import Panel
from accounts.models import Account
from inventory.models import Order
from petstore.backoffice.history import Entry
from petstore.backoffice.navigation import may_view

FOLLOWED = 30  # Orders whose steps are in the timeline,
SHOWN = 10  # and those in the panel.


def orders_of(account: Account, request: HttpRequest) -> Panel | None:
    if not may_view(request, "inventory.order"):
        return None
    latest = Order.objects.filter(account=account).newest_first()
    orders = list(latest.prefetch_related("events").select_related("pet")[:FOLLOWED])
    entries = [entry for order in orders for entry in steps(order)]
    return Panel("admin/inventory/account_orders.html", orders[:SHOWN], entries)


def steps(order: Order) -> list[Entry]:
    link = reverse("admin:inventory_order_change", args=[order.pk])
    return [
        Entry(
            event.at,
            f"Order {order.pk}: "
            f"{event.to_status if event.to_status != event.from_status else 'to be shipped'}",
            event.by,
            event.reason,
            link=link,
            icon="receipt_long",
        )
        for event in order.events.all()
    ]


accounts.more_panels.append(orders_of)
