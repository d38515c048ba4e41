"""Delete expired idempotency records."""

from collections.abc import Iterator
from typing import Any

from django.utils import timezone

from accounts.idempotency import RETENTION
from accounts.models import IdempotencyRecord
from petstore.db.batches import delete_in_batches
from petstore.management.base import JsonCommand


class Command(JsonCommand):
    help = "Delete responses stored for Idempotency-Key for more than 24 hours. Part of housekeeping."
    examples = "manage.py clear_idempotency_keys"

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = self.count_deleted(prune_expired())
        self.write_result({"deleted": deleted}, f"Done. Deleted {deleted} responses.")


def prune_expired() -> Iterator[int]:
    """Delete expired records, and yield the size of each batch."""
    return delete_in_batches(IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - RETENTION))
