"""Forget events that are kept no longer."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from accounts.events.sequencing import number_all
from accounts.models import Event, Feed
from accounts.quota.limits import microseconds
from petstore.management.base import JsonCommand

BATCH = 5_000  # Events in one transaction, which holds up the numbering of new ones.


class Command(JsonCommand):
    help = "Delete events that are older than EVENTS_KEPT_DAYS, a few at a time. Run it daily."
    examples = """
        manage.py clear_events
        manage.py clear_events --json
        """

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = 0
        with self.bar("Deleting", None, options) as bar:
            while some := clear_some():
                number_all()  # Those who else do so hardly ever find the feed free meanwhile.
                deleted += some
                bar.update(some)
        self.answer(options, {"deleted": deleted}, f"Done. Deleted {deleted} events.")


def clear_some() -> int:
    """Delete some of the oldest events, if they are kept no longer; return how many.

    The feed notes up to where, so no reader misses them unheard.
    """
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
