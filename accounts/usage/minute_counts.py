"""Requests per account and minute, the data of the what-if simulation.

Processes add their counts to a staging table, MinuteLoad. After each quarter of an hour, one process rolls
it up into AccountDayLoad, which has a row for each account and day. This keeps the staging table small and
rewrites a day's row 96 times instead of 1,440 times.
"""

from collections import Counter, defaultdict
from datetime import date, timedelta

from django.db import transaction
from django.db.models import Model

from accounts.models import EPOCH, AccountDayLoad, DeprecatedUse, MinuteLoad
from accounts.quota.limits import DAY, MINUTE, to_datetime

QUARTER = 15  # Minutes.
# A minute is rolled up only if it had no write for this long, so that after an outage every process can add
# its counts first.
QUIET_PERIOD = 2 * MINUTE
ROLL_UP_BATCH_SIZE = 10_000
KEPT_DAYS: dict[type[Model], int] = {
    AccountDayLoad: 92,  # What-if looks back 30 days.
    DeprecatedUse: 400,  # Finds yearly callers, too.
}


def roll_up(now: int) -> int:
    """Move finished quarters of an hour to AccountDayLoad; return the number of MinuteLoad rows moved.

    Safe to run concurrently: each process skips rows that another has locked.
    """
    ended = (now // MINUTE) // QUARTER * QUARTER
    ready = MinuteLoad.objects.filter(minute__lt=ended, written_at__lte=now - QUIET_PERIOD)
    if not ready.exists():  # On SQLite, a transaction blocks other writers.
        return 0
    with transaction.atomic():
        in_order = ready.order_by("account_id", "minute").select_for_update(skip_locked=True)
        rows = list(in_order[:ROLL_UP_BATCH_SIZE])
        add_to_days(rows)
        MinuteLoad.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def add_to_days(rows: list[MinuteLoad]) -> None:
    new: dict[tuple[int, date], Counter[str]] = defaultdict(Counter)
    for row in rows:
        day = EPOCH + timedelta(days=row.minute * MINUTE // DAY)
        new[row.account_id, day][str(row.requests)] += 1
    account_days = sorted(new)
    empty = (AccountDayLoad(account_id=account_id, day=day) for account_id, day in account_days)
    AccountDayLoad.objects.bulk_create(empty, ignore_conflicts=True)
    stored = (
        AccountDayLoad.objects.filter(
            account_id__in={account_id for account_id, _ in account_days},
            day__in={day for _, day in account_days},
        )
        .order_by("account_id", "day")
        .select_for_update()
    )
    changed = [load for load in stored if (load.account_id, load.day) in new]
    for load in changed:
        load.minutes = dict(Counter(load.minutes) + new[load.account_id, load.day])
    AccountDayLoad.objects.bulk_update(changed, ["minutes"], batch_size=200)


def prune(now: int) -> None:
    """Delete days past their retention. `now`: microseconds since the epoch."""
    for model, days in KEPT_DAYS.items():
        model._default_manager.filter(day__lt=to_datetime(now).date() - timedelta(days=days)).delete()
