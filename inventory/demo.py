"""Demo orders in every status, with their history."""

from datetime import datetime, timedelta
from random import Random

from accounts.models import Account, ApiKey
from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent, PetStatus

BATCH = 2_000
STAFF = ("maria", "tom", "ingrid")
# By status of the pet: the maximum number of orders, and the possible histories of one.
HISTORIES = {
    PetStatus.SOLD: (5_000, [[OrderStatus.PLACED, OrderStatus.APPROVED, OrderStatus.DELIVERED]]),
    PetStatus.PENDING: (500, [[OrderStatus.PLACED], [OrderStatus.PLACED, OrderStatus.APPROVED]]),
    PetStatus.AVAILABLE: (40, [[OrderStatus.PLACED, OrderStatus.CANCELLED]]),
}
# The status change of the pet that each status of its order causes.
PET_CHANGES = {
    OrderStatus.PLACED: (PetStatus.AVAILABLE, PetStatus.PENDING),
    OrderStatus.DELIVERED: (PetStatus.PENDING, PetStatus.SOLD),
    OrderStatus.CANCELLED: (PetStatus.PENDING, PetStatus.AVAILABLE),
}


def add_orders(rng: Random, now: datetime, days: int, accounts: list[Account]) -> int:
    """Order pets that have no order yet, and return the number of orders. Requires a transaction."""
    keys = dict(ApiKey.objects.order_by("-pk").values_list("account_id", "public_id"))
    timelines: list[tuple[Order, list[datetime]]] = []  # Each order with the times of its changes.
    order_events, pet_events = [], []
    for status, (limit, histories) in HISTORIES.items():
        for pet in Pet.objects.filter(status=status, orders=None).order_by("pk")[:limit]:
            order, history = Order(account=rng.choice(accounts), pet=pet), rng.choice(histories)
            times = order_times(rng, order, now, days, len(history))
            timelines.append((order, times))
            order.status = history[-1]
            if OrderStatus.DELIVERED in history:
                order.ship_date = times[1] + (times[2] - times[1]) / 2
            elif OrderStatus.APPROVED in history and rng.random() < 0.5:
                order.ship_date = times[1] + timedelta(days=2)
            for before, to, at in zip(["", *history], history, times, strict=False):
                by = rng.choice(STAFF) if before else f"key {keys[order.account_id]}"
                reason = "The customer changed their mind." if to == OrderStatus.CANCELLED else ""
                common = {"order": order, "at": at, "by": by, "reason": reason}
                order_events.append(OrderEvent(from_status=before, to_status=to, **common))
                if to in PET_CHANGES:
                    pet_before, pet_after = PET_CHANGES[to]
                    pet_events.append(
                        PetEvent(pet=pet, from_status=pet_before, to_status=pet_after, **common)
                    )
    orders = Order.objects.bulk_create([order for order, _ in timelines], BATCH)
    for order, times in timelines:
        order.created_at, order.updated_at = times[0], times[-1]
        order.pet.created_at = min(order.pet.created_at, times[0] - timedelta(days=3))
        order.pet.updated_at = times[-1]
    Order.objects.bulk_update(orders, ["created_at", "updated_at"], 500)
    Pet.objects.bulk_update([order.pet for order in orders], ["created_at", "updated_at"], 500)
    OrderEvent.objects.bulk_create(sorted(order_events, key=lambda event: event.at), BATCH)
    PetEvent.objects.bulk_create(sorted(pet_events, key=lambda event: event.at), BATCH)
    return len(orders)


def order_times(rng: Random, order: Order, now: datetime, days: int, count: int) -> list[datetime]:
    """Choose times within nine days of each other; open orders are at most six days old."""
    first = max(order.account.created_at, now - timedelta(days=days))
    if order.pet.status == PetStatus.PENDING:
        first = max(first, now - timedelta(days=6))
    placed = first + (now - first) * rng.random()
    span = min(now - placed, timedelta(days=9))
    return [placed, *sorted(placed + span * rng.random() for _ in range(count - 1))]
