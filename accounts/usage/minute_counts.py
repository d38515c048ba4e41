"""How many requests came in each minute: what "what if" is calculated from.

Every process adds its counts of a minute to a staging table, MinuteLoad. When a quarter of an hour is over,
one process, whichever comes first, moves it to AccountDayLoad, a row for each account and day. So the
staging table holds a few thousand rows, and a day's row is rewritten 96 times, not 1,440 times.
"""

from collections import Counter, defaultdict
from datetime import date, timedelta

from django.db import transaction
from django.db.models import Model

from accounts.models import EPOCH, AccountDayLoad, DeprecatedUse, MinuteLoad
from accounts.quota.limits import DAY, MINUTE, moment

QUARTER = 15  # Minutes.
# A minute is moved when nobody has written to it for so long: also after a time in which no process could
# write, each has time to bring its share.
QUIET = 2 * MINUTE
MOVED_AT_ONCE = 10_000
KEPT_DAYS: dict[type[Model], int] = {
    # "What if" looks back 30 days; a quarter leaves room for more. A year would be four times as much to
    # keep, for a question about next month's numbers.
    AccountDayLoad: 92,
    DeprecatedUse: 400,  # Somebody who calls once a year is still found.
}


def roll_up(now: int) -> int:
    """Move the finished quarters of an hour to the days' rows; return how many minutes were moved.

    Any number of processes may try at once: each takes rows that no other has (on SQLite there is one
    writer anyway), adds them and deletes them in one transaction.
    """
    ended = (now // MINUTE) // QUARTER * QUARTER
    ready = MinuteLoad.objects.filter(minute__lt=ended, written_at__lte=now - QUIET)
    if not ready.exists():  # On SQLite a transaction would lock out other writers.
        return 0
    with transaction.atomic():
        in_order = ready.order_by("account_id", "minute").select_for_update(skip_locked=True)
        rows = list(in_order[:MOVED_AT_ONCE])
        add_to_days(rows)
        MinuteLoad.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def add_to_days(rows: list[MinuteLoad]) -> None:
    """Count these minutes in the rows of their days, which are locked until the transaction ends."""
    new: dict[tuple[int, date], Counter[str]] = defaultdict(Counter)
    for row in rows:
        day = EPOCH + timedelta(days=row.minute * MINUTE // DAY)
        new[row.account_id, day][str(row.requests)] += 1
    places = sorted(new)
    empty = (AccountDayLoad(account_id=account_id, day=day) for account_id, day in places)
    AccountDayLoad.objects.bulk_create(empty, ignore_conflicts=True)
    stored = (
        AccountDayLoad.objects.filter(
            account_id__in={account_id for account_id, _ in places}, day__in={day for _, day in places}
        )
        .order_by("account_id", "day")
        .select_for_update()
    )
    changed = [load for load in stored if (load.account_id, load.day) in new]
    for load in changed:
        load.minutes = dict(Counter(load.minutes) + new[load.account_id, load.day])
    AccountDayLoad.objects.bulk_update(changed, ["minutes"], batch_size=200)


def prune(now: int) -> None:
    """Delete the days that are kept no longer. `now`: microseconds since the epoch."""
    for model, days in KEPT_DAYS.items():
        model._default_manager.filter(day__lt=moment(now).date() - timedelta(days=days)).delete()
