"""Events that warn, each once for its window, however many processes see the reason (D41).

What was warned of is a row that only one of them can add, in the transaction of the event. Who sees the
reason warns at once; what is missed, because a process died, the sweep makes up for. One process at a time
sweeps, once a minute.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.models import ApiKey, EventDraft, EventType, Feed, KeyStanding, QuotaCounter, Warned
from accounts.quota.limits import DAY, microseconds

THRESHOLDS = (80, 100)  # Per cent of the day's quota.
DAYS_BEFORE_END = (7, 1)
SWEEP_EVERY = timedelta(seconds=55)
KEPT = timedelta(days=30)  # Longer than any window.

Reached = dict[tuple[int, int, int], tuple[int, int]]  # Account, day, threshold: limit and use of the day.


def thresholds_of(account_id: int, day: int, limit: int, used: int) -> Reached:
    """Return the thresholds that this use of the day's limit has reached."""
    reached = (threshold for threshold in THRESHOLDS if used * 100 >= limit * threshold)
    return {(account_id, day, threshold): (limit, used) for threshold in reached}


def warn_of_use(reached: Reached) -> None:
    """Tell accounts that they have reached thresholds; in one order, or two processes might deadlock."""
    for (account_id, day, threshold), (limit, used) in sorted(reached.items()):
        data = {"window": "day", "limit": limit, "used": used, "threshold": threshold}
        event = EventDraft.of(EventType.QUOTA_REACHED, data, account_id)
        event.once(account_id, threshold, day)


def sweep(now: datetime | None = None) -> bool:
    """Warn of all that nobody has warned of, if it is time; tell whether it was. Raises DatabaseError."""
    now = now or timezone.now()
    before, after = microseconds(now - SWEEP_EVERY), microseconds(now + SWEEP_EVERY)
    due = Feed.objects.filter(Q(swept_at__lte=before) | Q(swept_at__gt=after))  # By a clock that was wrong.
    # Reads first: on SQLite every write, even of nothing, makes others wait.
    if not due.exists() or not due.update(swept_at=microseconds(now)):
        return False
    Warned.objects.filter(at__lt=now - KEPT).delete()
    sweep_keys(now)
    sweep_bans(now)
    sweep_quota(now)
    return True


def sweep_keys(now: datetime) -> None:
    """Tell of keys that end soon. Another end is warned of anew; a key with a day left, only of that."""
    ends = dict(zip(DAYS_BEFORE_END, (*DAYS_BEFORE_END[1:], 0), strict=True))
    for days, later in ends.items():
        keys = ApiKey.objects.filter(
            revoked_at=None,
            expires_at__gt=now + timedelta(days=later),
            expires_at__lte=now + timedelta(days=days),
        )
        told = set(
            warned(EventType.KEY_EXPIRING, days)
            .filter(of_window__gt=microseconds(now))
            .values_list("subject_id", "of_window")
        )
        for key in keys:
            assert key.expires_at is not None
            end = microseconds(key.expires_at)
            if (key.pk, end) not in told:
                key.event(EventType.KEY_EXPIRING).once(key.pk, days, end)


def sweep_bans(now: datetime) -> None:
    lately = microseconds(now) - DAY  # It may have ended before anybody came to tell of it.
    banned = KeyStanding.objects.filter(banned_until__gt=lately, banned_at__gt=lately).select_related("key")
    told = warned(EventType.KEY_BANNED, 0).filter(
        subject_id=OuterRef("pk"), of_window=OuterRef("banned_at")
    )
    for standing in banned.filter(~Exists(told)):
        standing.key.tell_of_ban(standing.banned_at)


def sweep_quota(now: datetime) -> None:
    """Tell of what the database knows to be used."""
    day = microseconds(now) // DAY
    limit = Coalesce("account__per_day", "account__plan__per_day")
    today = QuotaCounter.objects.filter(day=day).annotate(limit=limit)
    for threshold in THRESHOLDS:
        told = warned(EventType.QUOTA_REACHED, threshold).filter(
            subject_id=OuterRef("account_id"), of_window=day
        )
        # The use is what a day can hold; a hundredfold limit may be none that a database can hold.
        over = today.annotate(reached=F("day_used") * 100 / threshold).filter(
            ~Exists(told), reached__gte=F("limit")
        )
        facts = over.values_list("account_id", "limit", "day_used")
        warn_of_use({(account_id, day, threshold): (most, used) for account_id, most, used in facts})


def warned(kind: EventType, threshold: int) -> QuerySet[Warned]:
    return Warned.objects.filter(type=kind, threshold=threshold)
