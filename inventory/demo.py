"""Demo orders in every status, with their history."""

from datetime import datetime, timedelta
from random import Random
from typing import Any

from accounts.models import Account, ApiKey
from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent, PetStatus

BATCH_SIZE = 2_000
STAFF = ("maria", "tom", "ingrid")
# By the pet's status: the maximum number of orders, and the possible histories of an order.
HISTORIES = {
    PetStatus.SOLD: (5_000, [[OrderStatus.PLACED, OrderStatus.APPROVED, OrderStatus.DELIVERED]]),
    PetStatus.PENDING: (500, [[OrderStatus.PLACED], [OrderStatus.PLACED, OrderStatus.APPROVED]]),
    PetStatus.AVAILABLE: (40, [[OrderStatus.PLACED, OrderStatus.CANCELLED]]),
}
# The status change of the pet that each status of its order causes.
PET_CHANGES = {
    OrderStatus.PLACED: {"from_status": PetStatus.AVAILABLE, "to_status": PetStatus.PENDING},
    OrderStatus.DELIVERED: {"from_status": PetStatus.PENDING, "to_status": PetStatus.SOLD},
    OrderStatus.CANCELLED: {"from_status": PetStatus.PENDING, "to_status": PetStatus.AVAILABLE},
}


REASONS = {OrderStatus.CANCELLED: "The customer changed their mind."}
# An order, its statuses, and for each status the values that the entries of both histories share.
History = tuple[Order, list[OrderStatus], list[dict[str, Any]]]


def add_orders(rng: Random, now: datetime, days: int, accounts: list[Account]) -> int:
    """Order pets that have no order yet. Return the number of orders. Requires a transaction."""
    public_ids = dict(ApiKey.objects.order_by("-pk").values_list("account_id", "public_id"))
    orders: list[History] = []
    for pet_status, (max_orders, histories) in HISTORIES.items():
        for pet in Pet.objects.filter(status=pet_status, orders=None).order_by("pk")[:max_orders]:
            order = Order(account=rng.choice(accounts), pet=pet)
            statuses = rng.choice(histories)
            times = choose_times(rng, order, now, days, len(statuses))
            order.status = statuses[-1]
            order.ship_date = choose_ship_date(rng, statuses, times)
            authors = [f"key {public_ids[order.account_id]}", *(rng.choice(STAFF) for _ in statuses[1:])]
            entries = [
                {"at": at, "by": by, "reason": REASONS.get(status, "")}
                for status, at, by in zip(statuses, times, authors, strict=True)
            ]
            orders.append((order, statuses, entries))
    orders.sort(key=lambda history: history[2][0]["at"])  # IDs in the order of time.
    save_orders(orders)
    return len(orders)


def choose_times(rng: Random, order: Order, now: datetime, days: int, count: int) -> list[datetime]:
    """Choose times within nine days of each other. Open orders are at most six days old."""
    earliest = max(order.account.created_at, now - timedelta(days=days))
    if order.pet.status == PetStatus.PENDING:
        earliest = max(earliest, now - timedelta(days=6))
    placed_at = earliest + (now - earliest) * rng.random()
    span = min(now - placed_at, timedelta(days=9))
    return [placed_at, *sorted(placed_at + span * rng.random() for _ in range(count - 1))]


def choose_ship_date(rng: Random, statuses: list[OrderStatus], times: list[datetime]) -> datetime | None:
    if OrderStatus.DELIVERED in statuses:
        approved_at, delivered_at = times[1], times[2]
        return approved_at + (delivered_at - approved_at) / 2
    if OrderStatus.APPROVED in statuses and rng.random() < 0.5:
        return times[1] + timedelta(days=2)
    return None


def save_orders(orders: list[History]) -> None:
    rows = Order.objects.bulk_create([order for order, _, _ in orders], BATCH_SIZE)
    for order, _, entries in orders:  # After bulk_create(), which sets the times to now.
        order.created_at, order.updated_at = entries[0]["at"], entries[-1]["at"]
        order.pet.created_at = min(order.pet.created_at, order.created_at - timedelta(days=3))
        order.pet.updated_at = order.updated_at
    Order.objects.bulk_update(rows, ["created_at", "updated_at"], 500)
    Pet.objects.bulk_update([order.pet for order in rows], ["created_at", "updated_at"], 500)
    save_history(orders)


def save_history(orders: list[History]) -> None:
    order_events, pet_events = [], []
    for order, statuses, entries in orders:
        for from_status, status, entry in zip(["", *statuses], statuses, entries, strict=False):
            order_events.append(OrderEvent(order=order, from_status=from_status, to_status=status, **entry))
            if pet_change := PET_CHANGES.get(status):
                pet_events.append(PetEvent(pet=order.pet, order=order, **pet_change, **entry))
    OrderEvent.objects.bulk_create(sorted(order_events, key=lambda event: event.at), BATCH_SIZE)
    PetEvent.objects.bulk_create(sorted(pet_events, key=lambda event: event.at), BATCH_SIZE)
