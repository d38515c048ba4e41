"""Who still calls operations that will be removed: counted for each account and day."""

from datetime import timedelta

from django.db import connection

from accounts.limits import moment
from accounts.models import EPOCH, DeprecatedUse

KEPT_DAYS = 400  # Somebody who calls once a year is still found.

# By account id, operation and day since the epoch: requests, and the last one's time in microseconds.
Uses = dict[tuple[int, str, int], tuple[int, int]]

ADD_USE = """
INSERT INTO accounts_deprecateduse AS u (account_id, operation, day, requests, last_call_at)
SELECT id, %(operation)s, %(day)s, %(requests)s, %(last)s FROM accounts_account WHERE id = %(account)s
ON CONFLICT (account_id, operation, day) DO UPDATE SET
    requests = u.requests + excluded.requests,
    last_call_at = CASE WHEN excluded.last_call_at > u.last_call_at
        THEN excluded.last_call_at ELSE u.last_call_at END
"""


def add(uses: Uses, place: tuple[int, str, int], requests: int, last: int) -> None:
    before, last_before = uses.get(place, (0, 0))
    uses[place] = before + requests, max(last_before, last)


def write(uses: Uses) -> None:
    """Add to the table, in one order in every process."""
    rows = [
        {
            "account": account_id,
            "operation": operation,
            "day": EPOCH + timedelta(days=day),
            "requests": requests,
            "last": connection.ops.adapt_datetimefield_value(moment(last)),
        }
        for (account_id, operation, day), (requests, last) in sorted(uses.items())
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(ADD_USE, rows)


def prune(now: int) -> None:
    """Delete the days that are kept no longer. `now`: microseconds since the epoch."""
    DeprecatedUse.objects.filter(day__lt=moment(now).date() - timedelta(days=KEPT_DAYS)).delete()
