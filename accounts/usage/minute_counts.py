"""Requests per account and minute, the basis of the what-if simulation.

Processes add their counts to a staging table, MinuteCount. Every quarter of an hour, one process rolls it
up into MinuteHistogram, which has a row for each account and day. This keeps the staging table small
and updates a day's row about 96 times instead of 1,440 times.
"""

from collections import Counter, defaultdict
from datetime import date, timedelta

from django.db import transaction

from accounts.models import EPOCH, MinuteCount, MinuteHistogram
from accounts.quota.limits import DAY, MINUTE

ROLL_UP_MINUTES = 15
# Counts are rolled up once they have not changed for this long, so that every process can add its own after
# an outage.
QUIET_PERIOD = 2 * MINUTE
ROLL_UP_BATCH_SIZE = 10_000


def roll_up(now: int) -> int:
    """Move a batch of completed quarters of an hour to MinuteHistogram; return the number of rows moved.

    Safe to run concurrently, since each process skips rows that another has locked.
    """
    current_minute = now // MINUTE
    end = current_minute - current_minute % ROLL_UP_MINUTES
    ready = MinuteCount.objects.filter(minute__lt=end, written_at__lte=now - QUIET_PERIOD)
    if not ready.exists():  # On SQLite, a transaction blocks other writers.
        return 0
    with transaction.atomic():
        unlocked = ready.order_by("account_id", "minute").select_for_update(skip_locked=True)
        rows = list(unlocked[:ROLL_UP_BATCH_SIZE])
        add_to_days(rows)
        MinuteCount.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def add_to_days(rows: list[MinuteCount]) -> None:
    histograms: dict[tuple[int, date], Counter[str]] = defaultdict(Counter)
    for row in rows:
        day = EPOCH + timedelta(days=row.minute * MINUTE // DAY)
        histograms[row.account_id, day][str(row.requests)] += 1
    empty = [MinuteHistogram(account_id=account_id, day=day) for account_id, day in sorted(histograms)]
    MinuteHistogram.objects.bulk_create(empty, ignore_conflicts=True)
    # The filters also select accounts on days of other accounts.
    accounts, days = {load.account_id for load in empty}, {load.day for load in empty}
    candidates = MinuteHistogram.objects.filter(account_id__in=accounts, day__in=days)
    locked = candidates.order_by("account_id", "day").select_for_update()
    loads = [load for load in locked if (load.account_id, load.day) in histograms]
    for load in loads:
        load.minutes = dict(Counter(load.minutes) + histograms[load.account_id, load.day])
    MinuteHistogram.objects.bulk_update(loads, ["minutes"], batch_size=200)
