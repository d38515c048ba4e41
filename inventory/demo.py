"""Made-up orders, in every state, with the events that led there."""

from datetime import datetime, timedelta
from random import Random

from accounts.models import Account, ApiKey
from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent, PetStatus

BATCH = 2_000
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
    stories = [
        (Order(account=choose.choice(accounts), pet=pet), choose.choice(ways))
        for status, (most, ways) in WAYS.items()
        for pet in Pet.objects.filter(status=status, orders=None).order_by("pk")[:most]
    ]
    times = [order_times(choose, order, now, days, len(way)) for order, way in stories]
    for (order, way), at in zip(stories, times, strict=True):
        order.status = way[-1]
        if OrderStatus.DELIVERED in way:
            order.ship_date = at[1] + (at[2] - at[1]) / 2
        elif OrderStatus.APPROVED in way and choose.random() < 0.5:
            order.ship_date = at[1] + timedelta(days=2)
    orders = [order for order, _ in stories]
    Order.objects.bulk_create(orders, BATCH)
    for order, at in zip(orders, times, strict=True):
        order.created_at, order.updated_at = at[0], at[-1]
        order.pet.created_at = min(order.pet.created_at, at[0] - timedelta(days=3))
        order.pet.updated_at = at[-1]
    Order.objects.bulk_update(orders, ["created_at", "updated_at"], 500)
    Pet.objects.bulk_update([order.pet for order in orders], ["created_at", "updated_at"], 500)
    add_events(choose, stories, times)
    return len(orders)


def order_times(choose: Random, order: Order, now: datetime, days: int, steps: int) -> list[datetime]:
    """Return when each step was: within nine days, and for a waiting order within the last six."""
    first = max(order.account.created_at, now - timedelta(days=days))
    if order.pet.status == PetStatus.PENDING:
        first = max(first, now - timedelta(days=6))
    placed = first + (now - first) * choose.random()
    span = min(now - placed, timedelta(days=9))
    return [placed, *sorted(placed + span * choose.random() for _ in range(steps - 1))]


def add_events(
    choose: Random, stories: list[tuple[Order, list[OrderStatus]]], times: list[list[datetime]]
) -> None:
    """Add what happened to the orders and their pets, in the order of time."""
    keys = dict(ApiKey.objects.order_by("-pk").values_list("account_id", "public_id"))
    of_orders, of_pets = [], []
    for (order, way), at in zip(stories, times, strict=True):
        for number, (before, to) in enumerate(zip(["", *way], way, strict=False)):
            by = choose.choice(("maria", "tom", "ingrid")) if number else f"key {keys[order.account_id]}"
            reason = "The customer changed their mind." if to == OrderStatus.CANCELLED else ""
            told = {"order": order, "at": at[number], "by": by, "reason": reason}
            of_orders.append(OrderEvent(from_status=before, to_status=to, **told))
            if to in MOVES:
                was, is_now = MOVES[to]
                of_pets.append(PetEvent(pet=order.pet, from_status=was, to_status=is_now, **told))
    OrderEvent.objects.bulk_create(sorted(of_orders, key=lambda event: event.at), BATCH)
    PetEvent.objects.bulk_create(sorted(of_pets, key=lambda event: event.at), BATCH)
