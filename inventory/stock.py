"""Periodic stock counts, for pages that must not count a million pets.

One worker of all machines counts at a time and stores the result in StockCount.
"""

import logging
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter

from django.db import DatabaseError, connection
from django.db.models import Count, QuerySet
from django.utils import timezone

from inventory.models import Category, Order, Pet, PetStatus, Stage, StockCount

logger = logging.getLogger(__name__)

COUNT_EVERY = timedelta(seconds=60)
REST_FACTOR = 50  # Rest this many times the duration of a count: at most 2 % of the time is spent counting.
LEASE = timedelta(minutes=10)  # Then another worker takes over from one that died while counting.
POLL_SECONDS = 15
SMALL_SHOP = 50_000  # Pets. A smaller shop without a count is counted on request.


@dataclass(frozen=True, slots=True)
class CategoryStock:
    category_id: int
    name: str
    available: int
    pending: int
    sold: int

    @property
    def total(self) -> int:
        return self.available + self.pending + self.sold


@dataclass(frozen=True, slots=True)
class Stock:
    counted_at: datetime
    categories: tuple[CategoryStock, ...]  # Ordered by name.
    orders: dict[Stage, int]

    def pets(self, status: str) -> int:
        return sum(getattr(category, status) for category in self.categories)


def snapshot() -> Stock | None:
    """Return the latest count, or None; a small shop without one is counted now. Two queries."""
    counted = StockCount.objects.exclude(counted_at=None)
    last = counted.first()
    if last is None and not Pet.objects.filter(pk__gt=SMALL_SHOP).exists() and refresh():
        last = counted.first()
    if last is None or last.counted_at is None:
        return None
    pets = {(category_id, status): number for category_id, status, number in last.pets}
    categories = tuple(
        CategoryStock(pk, name, *(pets.get((pk, status), 0) for status in PetStatus.values))
        for pk, name in Category.objects.order_by("name").values_list("pk", "name")
    )
    orders = {
        Stage.TO_APPROVE: last.orders_placed,
        Stage.TO_SHIP: last.orders_approved - last.orders_shipped,
        Stage.SHIPPED: last.orders_shipped,
        Stage.DONE: last.orders_done,
    }
    return Stock(last.counted_at, categories, orders)


def due(now: datetime) -> QuerySet[StockCount]:
    return StockCount.objects.filter(due_at__lte=now)


def refresh(now: datetime | None = None) -> bool:
    """Count unless it is too early or another worker is counting; return whether this call counted."""
    now = now or timezone.now()
    StockCount.objects.bulk_create([StockCount(pk=1, due_at=now)], ignore_conflicts=True)
    if not due(now).update(due_at=now + LEASE):
        return False
    started = perf_counter()
    pets = Pet.objects.order_by().values_list("category_id", "status").annotate(number=Count("*"))
    # A single sequential scan: most orders are done, so their index would be as long.
    orders = Order.objects.aggregate(**{stage: Count("pk", filter=stage.orders) for stage in Stage})
    counted = list(pets)
    took = timedelta(seconds=perf_counter() - started)
    StockCount.objects.update(
        due_at=now + took + max(COUNT_EVERY, REST_FACTOR * took),
        counted_at=now,
        took_ms=round(took.total_seconds() * 1_000),
        pets=counted,
        orders_placed=orders[Stage.TO_APPROVE],
        orders_approved=orders[Stage.TO_SHIP] + orders[Stage.SHIPPED],
        orders_shipped=orders[Stage.SHIPPED],
        orders_done=orders[Stage.DONE],
    )
    return True


def start_counting() -> None:
    """Refresh the count periodically in a daemon thread."""

    def run() -> None:
        while True:
            refresh_if_due()
            time.sleep(POLL_SECONDS)

    threading.Thread(target=run, name="stock", daemon=True).start()


def refresh_if_due() -> None:
    # Reads first: in SQLite even an UPDATE of no rows takes the write lock.
    try:
        now = timezone.now()
        if due(now).exists() or not StockCount.objects.exists():
            refresh(now)
    except DatabaseError:
        logger.warning("The stock count failed; retrying in %s s.", POLL_SECONDS, exc_info=True)
    finally:
        connection.close()
