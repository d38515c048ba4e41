"""Warning events, sent once per window by all processes together (D41).

A unique Warned row, added in the event's transaction, prevents duplicates. The process that sees the reason
warns at once. Once a minute, one process sends the warnings that were missed because a process died.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.models import ApiKey, EventDraft, EventType, Feed, KeyStanding, QuotaCounter, Warned
from accounts.quota.limits import DAY, to_microseconds

THRESHOLDS = (80, 100)  # Per cent of the day's quota.
DAYS_BEFORE_EXPIRY = (7, 1)
CHECK_INTERVAL = timedelta(seconds=55)
RETENTION = timedelta(days=30)  # Longer than any window.

ReachedThresholds = dict[
    tuple[int, int, int], tuple[int, int]
]  # Account, day, threshold: the day's limit and use.


def find_reached_thresholds(account_id: int, day: int, limit: int, used: int) -> ReachedThresholds:
    reached = (threshold for threshold in THRESHOLDS if used * 100 >= limit * threshold)
    return {(account_id, day, threshold): (limit, used) for threshold in reached}


def send_quota_warnings(reached: ReachedThresholds) -> None:
    """Send the warnings, sorted to prevent deadlocks."""
    for (account_id, day, threshold), (limit, used) in sorted(reached.items()):
        data = {"window": "day", "limit": limit, "used": used, "threshold": threshold}
        event = EventDraft.build(EventType.QUOTA_REACHED, data, account_id)
        event.save_once(account_id, threshold, day)


def send_missed_warnings(now: datetime | None = None) -> bool:
    """Send missed warnings if they are due; return whether they were. Raises DatabaseError."""
    now = now or timezone.now()
    before, after = to_microseconds(now - CHECK_INTERVAL), to_microseconds(now + CHECK_INTERVAL)
    due = Feed.objects.filter(Q(swept_at__lte=before) | Q(swept_at__gt=after))  # By a wrong clock.
    # Read first: on SQLite, even an empty write blocks other writers.
    if not due.exists() or not due.update(swept_at=to_microseconds(now)):
        return False
    Warned.objects.filter(at__lt=now - RETENTION).delete()
    send_expiry_warnings(now)
    send_missed_ban_events(now)
    send_missed_quota_warnings(now)
    return True


def send_expiry_warnings(now: datetime) -> None:
    """Warn again after a change of the expiry. With a day left, send the last warning only."""
    ends = dict(zip(DAYS_BEFORE_EXPIRY, (*DAYS_BEFORE_EXPIRY[1:], 0), strict=True))
    for days, later in ends.items():
        keys = ApiKey.objects.filter(
            revoked_at=None,
            expires_at__gt=now + timedelta(days=later),
            expires_at__lte=now + timedelta(days=days),
        )
        sent = set(
            warned(EventType.KEY_EXPIRING, days)
            .filter(of_window__gt=to_microseconds(now))
            .values_list("subject_id", "of_window")
        )
        for key in keys:
            assert key.expires_at is not None
            end = to_microseconds(key.expires_at)
            if (key.pk, end) not in sent:
                key.build_event(EventType.KEY_EXPIRING).save_once(key.pk, days, end)


def send_missed_ban_events(now: datetime) -> None:
    recent = to_microseconds(now) - DAY  # Includes bans that have ended since.
    banned = KeyStanding.objects.filter(banned_until__gt=recent, banned_at__gt=recent).select_related("key")
    sent = warned(EventType.KEY_BANNED, 0).filter(
        subject_id=OuterRef("pk"), of_window=OuterRef("banned_at")
    )
    for state in banned.filter(~Exists(sent)):
        state.key.add_ban_event(state.banned_at)


def send_missed_quota_warnings(now: datetime) -> None:
    day = to_microseconds(now) // DAY
    limit = Coalesce("account__per_day", "account__plan__per_day")
    today = QuotaCounter.objects.filter(day=day).annotate(limit=limit)
    for threshold in THRESHOLDS:
        sent = warned(EventType.QUOTA_REACHED, threshold).filter(
            subject_id=OuterRef("account_id"), of_window=day
        )
        # Multiply the use, not the limit: 100 * limit may overflow.
        over = today.annotate(reached=F("day_used") * 100 / threshold).filter(
            ~Exists(sent), reached__gte=F("limit")
        )
        rows = over.values_list("account_id", "limit", "day_used")
        send_quota_warnings({(account_id, day, threshold): (most, used) for account_id, most, used in rows})


def warned(kind: EventType, threshold: int) -> QuerySet[Warned]:
    return Warned.objects.filter(type=kind, threshold=threshold)
