"""Warning and ban events (D41), each sent once per window by all processes together.

A unique SentWarning row, added in the event's transaction, prevents duplicates. A request that reaches a
threshold is counted only after its warning is stored. Once a minute, one process sends the warnings of keys
that expire soon, and of accounts that reached a threshold because their limit was lowered.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from accounts.models import ApiKey, EventType, Feed, OutboxEvent, QuotaUsage, SentWarning
from accounts.models.plans import PER_DAY
from accounts.quota.limits import DAY, to_microseconds
from petstore.db.batches import delete_in_batches
from petstore.db.durability import commit_asynchronously

THRESHOLDS = (80, 100)  # Percentages of the daily quota.
DAYS_BEFORE_EXPIRY = (7, 1)
CHECK_INTERVAL = timedelta(seconds=55)
RETENTION = timedelta(days=30)  # Longer than any window.

# Maps (account ID, day, threshold) to (daily limit, requests used).
ReachedThresholds = dict[tuple[int, int, int], tuple[int, int]]


def store_quota_warnings(account_id: int, day: int, limit: int, used: int) -> None:
    """Store the warnings of a request that brings the day's usage to `used`, so that it can be counted."""
    reached = [threshold for threshold in THRESHOLDS if used * 100 >= limit * threshold]
    with transaction.atomic():
        send_quota_warnings({(account_id, day, threshold): (limit, used) for threshold in reached})
    with transaction.atomic():
        commit_asynchronously()  # Other requests of the account wait for its lock.
        usage = QuotaUsage.current(account_id)
        usage.filter(day__lt=day).update(day=day, day_used=0, warned_threshold=0)
        # Of concurrent requests, only the first writes.
        usage.filter(day=day, warned_threshold__lt=max(reached)).update(warned_threshold=max(reached))


def send_quota_warnings(reached: ReachedThresholds) -> None:
    """Send the warnings in sorted order, which prevents deadlocks."""
    for (account_id, day, threshold), (limit, used) in sorted(reached.items()):
        data = {"window": "day", "limit": limit, "used": used, "threshold": threshold}
        event = OutboxEvent.build(EventType.QUOTA_REACHED, data, account_id)
        event.save_once(account_id, threshold, day)


def send_missed_warnings(now: datetime | None = None) -> bool:
    """Send expiry warnings and missed events if a check is due; return whether it was."""
    now = now or timezone.now()
    if not claim_check(now):
        return False
    sum(delete_in_batches(SentWarning.objects.filter(sent_at__lt=now - RETENTION)))
    send_expiry_warnings(now)
    send_missed_quota_warnings(now)
    return True


def claim_check(now: datetime) -> bool:
    """Record that this process checks now, unless a check was made within CHECK_INTERVAL."""
    # A check far in the future was recorded by a clock that was ahead.
    due = Feed.objects.filter(
        Q(warnings_checked_at__lte=to_microseconds(now - CHECK_INTERVAL))
        | Q(warnings_checked_at__gt=to_microseconds(now + CHECK_INTERVAL))
    )
    # Read first: on SQLite, even an update without matching rows blocks other writers.
    return due.exists() and due.update(warnings_checked_at=to_microseconds(now)) > 0


def send_expiry_warnings(now: datetime) -> None:
    """Send the warnings of keys that expire soon: only the last one if a key expires within a day."""
    for days, next_days in pairwise((*DAYS_BEFORE_EXPIRY, 0)):
        warnings = get_sent_warnings(EventType.KEY_EXPIRING, days).filter(
            occurrence__gt=to_microseconds(now)
        )
        sent = set(warnings.values_list("subject_id", "occurrence"))
        start, end = now + timedelta(days=next_days), now + timedelta(days=days)
        for key in ApiKey.objects.filter(revoked_at=None, expires_at__gt=start, expires_at__lte=end):
            assert key.expires_at is not None
            expires_at = to_microseconds(key.expires_at)
            if (key.pk, expires_at) not in sent:
                with transaction.atomic():
                    is_new = key.build_event(EventType.KEY_EXPIRING).save_once(key.pk, days, expires_at)
                    if is_new and not hasattr(key, "rotated_to"):
                        key.send_mail("mail/key_expiring")


def send_missed_quota_warnings(now: datetime) -> None:
    day = to_microseconds(now) // DAY
    usages = QuotaUsage.objects.filter(day=day).annotate(limit=PER_DAY)
    for threshold in THRESHOLDS:
        sent = get_sent_warnings(EventType.QUOTA_REACHED, threshold).filter(
            subject_id=OuterRef("account_id"), occurrence=day
        )
        # Scale the usage instead of the limit, since 100 * limit may overflow.
        unsent = usages.annotate(scaled_usage=F("day_used") * 100 / threshold).filter(
            ~Exists(sent), scaled_usage__gte=F("limit")
        )
        rows = unsent.values_list("account_id", "limit", "day_used")
        send_quota_warnings({(account, day, threshold): (limit, used) for account, limit, used in rows})


def get_sent_warnings(kind: EventType, threshold: int) -> QuerySet[SentWarning]:
    return SentWarning.objects.filter(type=kind, threshold=threshold)
