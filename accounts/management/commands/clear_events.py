"""Delete expired events."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from accounts.events.sequencing import sequence_all
from accounts.models import Event, Feed, WebhookEndpoint
from accounts.quota.limits import to_microseconds
from petstore.management.base import JsonCommand

BATCH_SIZE = 5_000  # Bounds the transaction, which blocks the sequencing of new events.


class Command(JsonCommand):
    help = "Delete events older than EVENT_RETENTION_DAYS, in batches. Part of housekeeping."
    examples = "manage.py clear_events"

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = self.count_deleted(prune_expired())
        self.write_result({"deleted": deleted}, f"Done. Deleted {deleted} events.")


def prune_expired() -> Iterator[int]:
    """Delete expired events, and yield the size of each batch."""
    while count := prune_batch():
        sequence_all()  # Other processes rarely get the lock during pruning.
        yield count


def prune_batch() -> int:
    """Delete the oldest expired events; return their count.

    The feed records the position of the last one, so that clients that have missed events get an error.
    """
    cutoff = timezone.now() - timedelta(days=settings.EVENT_RETENTION_DAYS)
    with transaction.atomic():
        feed = Feed.lock()
        oldest = Event.objects.filter(pk__gt=feed.last_pruned_id, pk__lte=feed.last_pruned_id + BATCH_SIZE)
        expired = oldest.filter(sequenced_at__lt=to_microseconds(cutoff))
        last = expired.aggregate(id=Max("id"), at=Max("sequenced_at"))
        if last["id"] is None:
            return 0
        deleted, _ = oldest.filter(pk__lte=last["id"]).delete()
        Feed.objects.update(last_pruned_id=last["id"], last_pruned_sequenced_at=last["at"])
        # Nothing waits for these endpoints, so the pruned events were not for them.
        asleep = WebhookEndpoint.objects.filter(disabled_at=None, next_attempt_at=None)
        asleep.filter(position__lt=last["id"]).update(position=last["id"])
        return deleted
