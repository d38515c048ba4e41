"""Deletion of many rows in short transactions."""

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

BATCH_SIZE = 10_000  # Rows.


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
