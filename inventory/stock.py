"""Periodic stock counts, since counting a million pets for each page would be too slow.

Only one worker across all machines counts at a time. It stores the result in StockCount.
"""

import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter

from django.db.models import Count
from django.utils import timezone

from accounts.usage.write_behind import run_safely
from inventory.models import Category, Order, Pet, PetStatus, Stage, StockCount

MIN_INTERVAL = timedelta(seconds=60)
PAUSE_FACTOR = 50  # A pause lasts this many times as long as the previous count, for a load of 2 %.
LEASE = timedelta(minutes=10)  # If a worker dies while it counts, another one counts after this time.
POLL_SECONDS = 15
MAX_PETS_COUNTED_ON_REQUEST = 50_000


@dataclass(frozen=True, slots=True)
class CategoryStock:
    category_id: int
    name: str
    pets: dict[str, int]  # The number by status.

    @property
    def total(self) -> int:
        return sum(self.pets.values())


@dataclass(frozen=True, slots=True)
class Stock:
    counted_at: datetime
    categories: tuple[CategoryStock, ...]  # Ordered by name.
    orders: dict[Stage, int]  # Without returned ones, which are few.

    def count_pets(self, status: str) -> int:
        return sum(category.pets[status] for category in self.categories)


def get_stock() -> Stock | None:
    """Return the latest count in two queries, or None. A small shop without a count is counted at once."""
    counts = StockCount.objects.exclude(counted_at=None)
    latest = counts.first()
    if latest is None and is_small_shop() and refresh():
        latest = counts.first()
    if latest is None or latest.counted_at is None:
        return None
    pet_counts = {(category_id, status): count for category_id, status, count in latest.pets}
    categories = tuple(
        CategoryStock(pk, name, {status: pet_counts.get((pk, status), 0) for status in PetStatus.values})
        for pk, name in Category.objects.order_by("name").values_list("pk", "name")
    )
    orders = {
        Stage.TO_APPROVE: latest.orders_placed,
        Stage.TO_SHIP: latest.orders_approved - latest.orders_scheduled - latest.orders_shipped,
        Stage.SCHEDULED: latest.orders_scheduled,
        Stage.SHIPPED: latest.orders_shipped,
        Stage.DELIVERED: latest.orders_done - latest.orders_cancelled,
        Stage.CANCELLED: latest.orders_cancelled,
    }
    return Stock(latest.counted_at, categories, orders)


def is_small_shop() -> bool:
    """Judge by the ids, since counting a large table is slow."""
    return not Pet.objects.filter(pk__gt=MAX_PETS_COUNTED_ON_REQUEST).exists()


def refresh(now: datetime | None = None) -> bool:
    """Count, unless it is too early or another worker is counting. Return whether this call counted."""
    now = now or timezone.now()
    StockCount.objects.bulk_create([StockCount(pk=1, due_at=now)], ignore_conflicts=True)
    if not StockCount.objects.filter(due_at__lte=now).update(due_at=now + LEASE):
        return False
    start = perf_counter()
    pets = list(Pet.objects.order_by().values_list("category_id", "status").annotate(count=Count("*")))
    # A sequential scan is best: most orders are delivered, so that index is as long as the table.
    orders = Order.objects.aggregate(**{stage: Count("pk", filter=stage.condition) for stage in Stage})
    duration = timedelta(seconds=perf_counter() - start)
    StockCount.objects.update(
        due_at=now + duration + max(MIN_INTERVAL, PAUSE_FACTOR * duration),
        counted_at=now,
        took_ms=round(duration.total_seconds() * 1_000),
        pets=pets,
        orders_placed=orders[Stage.TO_APPROVE],
        orders_approved=orders[Stage.TO_SHIP] + orders[Stage.SCHEDULED] + orders[Stage.SHIPPED],
        orders_scheduled=orders[Stage.SCHEDULED],
        orders_shipped=orders[Stage.SHIPPED],
        orders_done=orders[Stage.DELIVERED] + orders[Stage.CANCELLED],
        orders_cancelled=orders[Stage.CANCELLED],
    )
    return True


def start_counting() -> None:
    """Refresh the count periodically in a daemon thread."""

    def run() -> None:
        while True:
            run_safely("stock", refresh_if_due)
            time.sleep(POLL_SECONDS)

    threading.Thread(target=run, name="stock", daemon=True).start()


def refresh_if_due() -> None:
    now = timezone.now()
    # Read first, because in SQLite even an UPDATE of no rows takes the write lock.
    if not StockCount.objects.filter(due_at__gt=now).exists():
        refresh(now)
