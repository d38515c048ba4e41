"""Demo pets, and demo orders in every status, with their history."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.core.management.base import CommandError

from accounts.demo import Orders
from accounts.models import Account, ApiKey
from accounts.models.api_keys import SERVICE
from inventory.models import Category, Order, OrderEvent, OrderStatus, Pet, PetEvent, PetStatus

NAMES = """
Apollo Bella Biscuit Blue Bramble Bruno Buttons Casper Charlie Chester Clover Coco Cookie Daisy
Dexter Echo Ember Finn Ginger Hazel Honey Hugo Jasper Kiwi Leo Lola Lucky Luna Mango Maple Max Millie
Milo Mocha Nala Nemo Olive Oreo Oscar Peanut Pepper Pip Poppy Rocky Rosie Ruby Rusty Scout Teddy Toby
""".split()
STATUSES = [PetStatus.AVAILABLE] * 6 + [PetStatus.PENDING] + [PetStatus.SOLD] * 3
BATCH_SIZE = 2_000
# By the pet's status: the maximum number of orders, their maximum age in days, and possible histories.
HISTORIES = {
    PetStatus.SOLD: (5_000, 730, [[OrderStatus.PLACED, OrderStatus.APPROVED, OrderStatus.DELIVERED]]),
    PetStatus.PENDING: (500, 6, [[OrderStatus.PLACED], [OrderStatus.PLACED, OrderStatus.APPROVED]]),
    PetStatus.AVAILABLE: (40, 730, [[OrderStatus.PLACED, OrderStatus.CANCELLED]]),
}
# The status change of the pet that each status of its order causes.
PET_CHANGES = {
    OrderStatus.PLACED: {"from_status": PetStatus.AVAILABLE, "to_status": PetStatus.PENDING},
    OrderStatus.DELIVERED: {"from_status": PetStatus.PENDING, "to_status": PetStatus.SOLD},
    OrderStatus.CANCELLED: {"from_status": PetStatus.PENDING, "to_status": PetStatus.AVAILABLE},
}
REASONS = {OrderStatus.CANCELLED: "The customer changed their mind."}


def generate_pets(count: int) -> Iterator[Pet]:
    """Yield random pets, which depend only on the count and the categories."""
    rng = Random(count)  # noqa: S311  Not for security.
    category_ids = list(Category.objects.values_list("id", flat=True))
    if not category_ids:
        raise CommandError("There are no categories. Add one in the back office.")
    for _ in range(count):
        name, category_id = rng.choice(NAMES), rng.choice(category_ids)
        yield Pet(name=name, category_id=category_id, status=rng.choice(STATUSES))


def add_orders(rng: Random, now: datetime, days: int, accounts: list[Account]) -> Orders:
    """Order pets that have no order yet. Requires a transaction."""
    public_ids = dict(ApiKey.objects.order_by("-pk").values_list("account_id", "public_id"))
    histories: list[tuple[Order, list[dict[str, Any]]]] = []
    for pet_status, (max_orders, max_days, choices) in HISTORIES.items():
        for pet in Pet.objects.filter(status=pet_status, orders=None).order_by("pk")[:max_orders]:
            account, statuses = rng.choice(accounts), rng.choice(choices)
            first_usage = account.created_at + timedelta(days=1, minutes=5)  # See add_accounts.
            earliest = max(first_usage, now - timedelta(days=min(days, max_days)))
            placed_at = earliest + (now - earliest) * rng.random()
            span = min(now - placed_at, timedelta(days=9))
            times = [placed_at, *sorted(placed_at + span * rng.random() for _ in statuses[1:])]
            authors = [f"key {public_ids[account.pk]}", *[SERVICE.name] * (len(statuses) - 1)]
            steps = [
                {
                    "from_status": before,
                    "to_status": status,
                    "at": at,
                    "by": by,
                    "reason": REASONS.get(status, ""),
                }
                for before, status, at, by in zip(["", *statuses], statuses, times, authors, strict=False)
            ]
            order = Order(account=account, pet=pet, status=statuses[-1])
            if order.status == OrderStatus.DELIVERED:
                order.ship_date = times[1] + (times[2] - times[1]) / 2
            elif order.status == OrderStatus.APPROVED and rng.random() < 0.5:
                order.ship_date = times[1] + timedelta(days=2)
            histories.append((order, steps))
    histories.sort(key=lambda history: history[1][0]["at"])  # IDs in the order of time.
    save(histories)
    return Counter((order.account_id, steps[0]["at"].date()) for order, steps in histories)


def save(histories: list[tuple[Order, list[dict[str, Any]]]]) -> None:
    orders = Order.objects.bulk_create([order for order, _ in histories], BATCH_SIZE)
    for order, steps in histories:  # After bulk_create(), which sets the times to now.
        order.created_at, order.updated_at = steps[0]["at"], steps[-1]["at"]
        order.pet.created_at = min(order.pet.created_at, order.created_at - timedelta(days=3))
        order.pet.updated_at = order.updated_at
    Order.objects.bulk_update(orders, ["created_at", "updated_at"], 500)
    Pet.objects.bulk_update([order.pet for order in orders], ["created_at", "updated_at"], 500)
    rows = sorted(
        ((order, step) for order, steps in histories for step in steps), key=lambda row: row[1]["at"]
    )
    OrderEvent.objects.bulk_create([OrderEvent(order=order, **step) for order, step in rows], BATCH_SIZE)
    pet_events = [
        PetEvent(pet=order.pet, order=order, **step | PET_CHANGES[step["to_status"]])
        for order, step in rows
        if step["to_status"] in PET_CHANGES
    ]
    PetEvent.objects.bulk_create(pet_events, BATCH_SIZE)
