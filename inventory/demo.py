"""Made-up orders, in every state, with the events that led there."""

from datetime import datetime, timedelta
from random import Random

from accounts.models import Account, ApiKey
from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent, PetStatus

BATCH = 2_000
STAFF = ("maria", "tom", "ingrid")
# The pets of each status that get an order, at most, and the ways that it may have gone.
WAYS = {
    PetStatus.SOLD: (5_000, [[OrderStatus.PLACED, OrderStatus.APPROVED, OrderStatus.DELIVERED]]),
    PetStatus.PENDING: (500, [[OrderStatus.PLACED], [OrderStatus.PLACED, OrderStatus.APPROVED]]),
    PetStatus.AVAILABLE: (40, [[OrderStatus.PLACED, OrderStatus.CANCELLED]]),
}
# What an order's step makes of its pet.
MOVES = {
    OrderStatus.PLACED: (PetStatus.AVAILABLE, PetStatus.PENDING),
    OrderStatus.DELIVERED: (PetStatus.PENDING, PetStatus.SOLD),
    OrderStatus.CANCELLED: (PetStatus.PENDING, PetStatus.AVAILABLE),
}


def add_orders(choose: Random, now: datetime, days: int, accounts: list[Account]) -> int:
    """Add orders of these accounts for pets that have none; return how many.

    Call it in a transaction.
    """
    keys = dict(ApiKey.objects.order_by("-pk").values_list("account_id", "public_id"))
    stories: list[tuple[Order, list[datetime]]] = []  # Each order, and when its steps were.
    of_orders, of_pets = [], []
    for status, (most, ways) in WAYS.items():
        for pet in Pet.objects.filter(status=status, orders=None).order_by("pk")[:most]:
            order, way = Order(account=choose.choice(accounts), pet=pet), choose.choice(ways)
            times = order_times(choose, order, now, days, len(way))
            stories.append((order, times))
            order.status = way[-1]
            if OrderStatus.DELIVERED in way:
                order.ship_date = times[1] + (times[2] - times[1]) / 2
            elif OrderStatus.APPROVED in way and choose.random() < 0.5:
                order.ship_date = times[1] + timedelta(days=2)
            for before, to, at in zip(["", *way], way, times, strict=False):
                by = choose.choice(STAFF) if before else f"key {keys[order.account_id]}"
                reason = "The customer changed their mind." if to == OrderStatus.CANCELLED else ""
                told = {"order": order, "at": at, "by": by, "reason": reason}
                of_orders.append(OrderEvent(from_status=before, to_status=to, **told))
                if to in MOVES:
                    was, is_now = MOVES[to]
                    of_pets.append(PetEvent(pet=pet, from_status=was, to_status=is_now, **told))
    orders = Order.objects.bulk_create([order for order, _ in stories], BATCH)
    for order, times in stories:
        order.created_at, order.updated_at = times[0], times[-1]
        order.pet.created_at = min(order.pet.created_at, times[0] - timedelta(days=3))
        order.pet.updated_at = times[-1]
    Order.objects.bulk_update(orders, ["created_at", "updated_at"], 500)
    Pet.objects.bulk_update([order.pet for order in orders], ["created_at", "updated_at"], 500)
    OrderEvent.objects.bulk_create(sorted(of_orders, key=lambda event: event.at), BATCH)
    PetEvent.objects.bulk_create(sorted(of_pets, key=lambda event: event.at), BATCH)
    return len(orders)


def order_times(choose: Random, order: Order, now: datetime, days: int, steps: int) -> list[datetime]:
    """Return when each step was: within nine days, and for a waiting order within the last six."""
    first = max(order.account.created_at, now - timedelta(days=days))
    if order.pet.status == PetStatus.PENDING:
        first = max(first, now - timedelta(days=6))
    placed = first + (now - first) * choose.random()
    span = min(now - placed, timedelta(days=9))
    return [placed, *sorted(placed + span * choose.random() for _ in range(steps - 1))]
