"""Deletes events that are kept no longer (D42), and notes up to where: no reader misses them unheard."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from accounts.limits import microseconds
from accounts.models import Event, Feed

BATCH = 5_000  # Events in one transaction, which holds up the numbering of new ones.


def clear_some() -> int:
    """Delete some of the oldest events, if they are kept no longer; return how many."""
    kept_since = timezone.now() - timedelta(days=settings.EVENTS_KEPT_DAYS)
    with transaction.atomic():
        feed = Feed.held()
        oldest = Event.objects.filter(pk__gt=feed.cleared_id, pk__lte=feed.cleared_id + BATCH)
        old = oldest.filter(numbered_at__lt=microseconds(kept_since))
        last = old.aggregate(id=Max("id"), at=Max("numbered_at"))
        if last["id"] is None:
            return 0
        deleted, _ = oldest.filter(pk__lte=last["id"]).delete()
        Feed.objects.update(cleared_id=last["id"], cleared_at=last["at"])
        return deleted
