"""What the page of an event leads to."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Model

from accounts.admin import events
from inventory.models import Order, Pet


def order_and_pet(account_id: int, data: dict[str, Any]) -> Iterator[Model]:
    """Yield the order and the pet that an event is about, as they are now."""
    if "order" in data:
        for order in Order.objects.filter(pk=data["order"]["id"]).select_related("pet"):
            yield from (order, order.pet)
    if "pet" in data:
        yield from Pet.objects.filter(pk=data["pet"]["id"])


events.subjects.append(order_and_pet)
