"""Invented orders, in every state, with the events that led there."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from random import Random
from typing import NamedTuple

from django.db.models import QuerySet

from accounts.models import Account, ApiKey
from inventory.models import Order, OrderStatus, Pet, PetStatus
from inventory.models.events import OrderEvent, PetEvent

BATCH = 2_000
STAFF = ("maria", "tom", "ingrid")
DELIVERED = 5_000  # At most.
WAITING = 500
CANCELLED = 300
REASONS = (
    "The customer changed their mind.",
    "Ordered twice.",
    "The animal is ill.",
    "No answer for two weeks.",
)


# What an order's step makes of its pet.
PETS = {
    OrderStatus.PLACED: PetStatus.PENDING,
    OrderStatus.DELIVERED: PetStatus.SOLD,
    OrderStatus.CANCELLED: PetStatus.AVAILABLE,
}


class Step(NamedTuple):
    """Something that happened to an order."""

    at: datetime
    from_status: str
    to_status: OrderStatus
    by: str
    reason: str = ""


@dataclass
class Story:
    """An order and its steps, the first of which placed it."""

    order: Order
    steps: list[Step]


def add_orders(choose: Random, now: datetime, days: int, accounts: list[Account]) -> int:
    """Add orders of these accounts for pets that have none; return how many.

    Sold pets were delivered, pending ones are waited for, and of some available ones the order was
    cancelled. Call it in a transaction.
    """
    stories = list(tell(choose, now, days, accounts))
    stories.sort(key=lambda story: story.steps[0].at)
    Order.objects.bulk_create([story.order for story in stories], BATCH)
    for story in stories:
        pet = story.order.pet
        story.order.created_at, story.order.updated_at = story.steps[0].at, story.steps[-1].at
        pet.created_at = min(pet.created_at, story.steps[0].at - timedelta(days=choose.uniform(1, 20)))
        pet.updated_at = story.steps[-1].at
    Order.objects.bulk_update([story.order for story in stories], ["created_at", "updated_at"], 500)
    Pet.objects.bulk_update([story.order.pet for story in stories], ["created_at", "updated_at"], 500)
    of_orders = [event for story in stories for event in order_events(story)]
    of_pets = [event for story in stories for event in pet_events(story)]
    OrderEvent.objects.bulk_create(sorted(of_orders, key=attrgetter("at")), BATCH)
    PetEvent.objects.bulk_create(sorted(of_pets, key=attrgetter("at")), BATCH)
    return len(stories)


def tell(choose: Random, now: datetime, days: int, accounts: list[Account]) -> Iterator[Story]:
    """Yield a story for each pet that can have one."""
    keys = dict(
        ApiKey.objects.filter(account__in=accounts).order_by("-pk").values_list("account_id", "public_id")
    )

    def begin(pet: Pet, within: int) -> Story:
        account = choose.choice(accounts)
        first = max(account.created_at, now - timedelta(days=within))
        placed_at = first + (now - first) * choose.random()
        step = Step(placed_at, "", OrderStatus.PLACED, f"key {keys[account.pk]}")
        return Story(Order(account=account, pet=pet), [step])

    for pet in never_ordered(PetStatus.SOLD)[:DELIVERED]:
        story = begin(pet, days)
        approve_and_ship(choose, story, now, left=True)
        go(choose, story, now, OrderStatus.DELIVERED)
        yield story
    for pet in never_ordered(PetStatus.PENDING)[:WAITING]:
        story = begin(pet, min(days, 6))
        fate = choose.random()
        if fate < 0.2:
            approve_and_ship(choose, story, now, left=False)
        elif fate < 0.45:
            go(choose, story, now, OrderStatus.APPROVED)
        yield story
    for pet in never_ordered(PetStatus.AVAILABLE)[:CANCELLED]:
        if choose.random() < 0.25:
            story = begin(pet, days)
            go(choose, story, now, OrderStatus.CANCELLED, choose.choice(REASONS))
            yield story


def never_ordered(status: PetStatus) -> QuerySet[Pet]:
    """Return the pets of this status that were never ordered, the oldest first."""
    return Pet.objects.filter(status=status, orders=None).order_by("pk")


def go(choose: Random, story: Story, now: datetime, to: OrderStatus, reason: str = "") -> None:
    """Add a step by staff, up to three days after the last one; an animal arrives after it left."""
    last, ship_date = story.steps[-1], story.order.ship_date
    after = max(last.at, ship_date) if ship_date else last.at
    at = after + min(timedelta(days=3), now - after) * choose.uniform(0.1, 0.9)
    story.steps.append(Step(at, last.to_status, to, choose.choice(STAFF), reason))
    story.order.status = to


def approve_and_ship(choose: Random, story: Story, now: datetime, *, left: bool) -> None:
    """Approve the order, and say when the animal leaves: it left already, or it may leave later."""
    go(choose, story, now, OrderStatus.APPROVED)
    go(choose, story, now, OrderStatus.APPROVED)
    step = story.steps[-1]
    until = now - step.at if left else timedelta(days=2)
    ship_date = step.at + min(timedelta(days=2), until) * choose.uniform(0.1, 0.9)
    story.order.ship_date = ship_date
    story.steps[-1] = step._replace(reason=f"Ships {ship_date:%Y-%m-%d %H:%M} UTC.")


def order_events(story: Story) -> Iterator[OrderEvent]:
    """Yield what happened to the order."""
    for step in story.steps:
        yield OrderEvent(order=story.order, **step._asdict())


def pet_events(story: Story) -> Iterator[PetEvent]:
    """Yield what happened to its pet."""
    status = PetStatus.AVAILABLE
    for step in story.steps:
        if step.to_status in PETS and PETS[step.to_status] != status:
            before, status = status, PETS[step.to_status]
            moved = {"at": step.at, "by": step.by, "reason": step.reason}
            yield PetEvent(
                pet=story.order.pet, order=story.order, from_status=before, to_status=status, **moved
            )
