"""How much is in stock, for pages that must not count a million pets.

One worker of all machines counts now and then and keeps the result (StockCount). Pages read that.
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
REST = 50  # Times as long as the last count took, so that counting takes at most 2 % of the time.
# After so long, others count in place of a worker that died while counting.
LEASE = timedelta(minutes=10)
LOOK_EVERY = 15  # Seconds.
SMALL = 50_000  # Pets. A shop with fewer is counted for the page that asks, if it never was.


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
    """The pets and the waiting orders at one moment."""

    counted_at: datetime
    categories: tuple[CategoryStock, ...]  # All of them, by name.
    orders: dict[Stage, int]

    def pets(self, status: str) -> int:
        return sum(getattr(category, status) for category in self.categories)


def snapshot() -> Stock | None:
    """Return the last count, or None if there is none yet. Two queries.

    A small shop that was never counted is counted now.
    """
    counted = StockCount.objects.exclude(counted_at=None)
    last = counted.first()
    if last is None and not Pet.objects.filter(pk__gt=SMALL).exists() and refresh():  # Ids only grow.
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
    """Return the row if the next count may begin."""
    return StockCount.objects.filter(due_at__lte=now)


def refresh(now: datetime | None = None) -> bool:
    """Count, if it is time and nobody else does; return whether this call did."""
    now = now or timezone.now()
    StockCount.objects.bulk_create([StockCount(pk=1, due_at=now)], ignore_conflicts=True)
    if not due(now).update(due_at=now + LEASE):
        return False
    began = perf_counter()
    pets = Pet.objects.order_by().values_list("category_id", "status").annotate(number=Count("*"))
    # One pass: their indexes would be as long, since most orders are done.
    orders = Order.objects.aggregate(**{stage: Count("pk", filter=stage.orders) for stage in Stage})
    counted = list(pets)
    took = timedelta(seconds=perf_counter() - began)
    StockCount.objects.update(
        due_at=now + took + max(COUNT_EVERY, REST * took),
        counted_at=now,
        took_ms=round(took.total_seconds() * 1_000),
        pets=counted,
        orders_placed=orders[Stage.TO_APPROVE],
        orders_approved=orders[Stage.TO_SHIP] + orders[Stage.SHIPPED],
        orders_shipped=orders[Stage.SHIPPED],
        orders_done=orders[Stage.DONE],
    )
    return True


def count_from_now_on() -> None:
    """Keep the count fresh, in a thread of its own."""

    def keep_fresh() -> None:
        while True:
            look()
            time.sleep(LOOK_EVERY)

    threading.Thread(target=keep_fresh, name="stock", daemon=True).start()


def look() -> None:
    """Count if it is time. Reads first: on SQLite every write, even of nothing, makes others wait."""
    try:
        now = timezone.now()
        if due(now).exists() or not StockCount.objects.exists():
            refresh(now)
    except DatabaseError:
        logger.warning(
            "The stock could not be counted; the next attempt is in %s s.", LOOK_EVERY, exc_info=True
        )
    finally:
        connection.close()
