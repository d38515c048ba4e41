"""Deletion of many rows in short transactions."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

BATCH_SIZE = 10_000  # Rows.
EVERY_ROW = Q()
RECENT = timedelta(hours=1)  # Owners without newer rows have been pruned before.


def delete_in_batches(rows: QuerySet[Any]) -> Iterator[int]:
    """Delete rows in short transactions, and yield the size of each batch.

    Rows that another transaction has locked are skipped, so that several can delete concurrently.
    """
    while True:
        with transaction.atomic():
            batch = rows.select_for_update(skip_locked=True).values_list("pk", flat=True)[:BATCH_SIZE]
            keys = list(batch)
            rows.model._base_manager.filter(pk__in=keys).delete()
        if not keys:
            return
        yield len(keys)


def prune(
    rows: Any,
    owner: str,
    time: str,
    *,
    now: datetime,
    retention: timedelta,
    max_rows: int,
    surplus: Q = EVERY_ROW,
) -> None:
    """Delete rows that are too old, and the oldest of each owner beyond a maximum.

    `owner` and `time` name fields. Of the rows beyond the maximum, only those that match `surplus` go.
    """
    sum(delete_in_batches(rows.filter(**{f"{time}__lt": now - retention})))
    recent = rows.filter(**{f"{time}__gte": now - RECENT}).order_by()
    for value in recent.values_list(owner, flat=True).distinct():
        newest_first = rows.filter(**{owner: value}).order_by("-pk")
        # An index-only scan, which reads about `max_rows` entries.
        for newest in newest_first.values_list("pk", flat=True)[max_rows : max_rows + 1]:
            sum(delete_in_batches(newest_first.filter(surplus, pk__lte=newest)))
