"""A batch of usage counters and rejections, and the statements that write it.

Days and minutes are counted since the epoch; times are microseconds since the epoch.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.db import connection, transaction

from accounts.models import EPOCH, ApiKey, OperationUsage
from accounts.quota.limits import MINUTE, to_datetime
from accounts.usage.rejection_log import MAX_PER_WRITE, RejectedRequest
from petstore.db.identity import is_postgresql

BATCH_SIZE = 5_000  # Rows per statement, about 400 KB.
MAX_MINUTES = 100_000  # Minute counts held during an outage; the oldest are dropped.
LAST_USED_PRECISION = MINUTE


class Statement(NamedTuple):
    """SQL that takes thousands of rows as one JSON parameter, on PostgreSQL and SQLite.

    `{rows}` becomes a table expression r. `{lock}` locks the rows of table k in the order of the query
    before they are updated. SQLite needs no lock, since it has a single writer.
    """

    columns: dict[str, str]  # Names and PostgreSQL types, in order.
    template: str

    def execute(self, rows: Iterable[tuple[Any, ...]]) -> None:
        remaining = iter(rows)
        with connection.cursor() as cursor:
            while batch := list(islice(remaining, BATCH_SIZE)):
                cursor.execute(self._build_sql(), [json.dumps(batch)])

    def _build_sql(self) -> str:
        if is_postgresql():
            function, value, lock = "json_array_elements", "(value ->> {})::{}", "FOR NO KEY UPDATE OF k"
        else:
            function, value, lock = "json_each", "json_extract(value, '$[{}]')", ""
        columns = ", ".join(
            f"{value.format(index, kind)} AS {name}"
            for index, (name, kind) in enumerate(self.columns.items())
        )
        rows = f"(SELECT {columns} FROM {function}(%s)) AS r"  # noqa: S608  Only constants.
        return self.template.format(rows=rows, lock=lock)


# The joins drop the usage of keys and accounts that have been deleted since it was counted.
ADD_DAILY_USAGE = Statement(
    {"key_id": "bigint", "day": "date", "admitted": "bigint", "rejected": "bigint"},
    """
    INSERT INTO accounts_dailyusage AS u (key_id, day, admitted, rejected)
    SELECT k.id, r.day, r.admitted, r.rejected FROM {rows}, accounts_apikey AS k
    WHERE k.id = r.key_id ORDER BY k.id, r.day
    ON CONFLICT (key_id, day) DO UPDATE SET
        admitted = u.admitted + excluded.admitted, rejected = u.rejected + excluded.rejected
    """,
)
SET_LAST_USED = Statement(
    {"key_id": "bigint", "at": "timestamptz", "before": "timestamptz"},
    """
    UPDATE accounts_apikey SET last_used_at = stale.at
    FROM (
        SELECT k.id, r.at FROM {rows}, accounts_apikey AS k
        WHERE k.id = r.key_id AND (k.last_used_at IS NULL OR k.last_used_at <= r.before)
        ORDER BY k.id {lock}
    ) AS stale
    WHERE accounts_apikey.id = stale.id
    """,
)
ADD_MINUTE_COUNTS = Statement(
    {"account_id": "bigint", "minute": "bigint", "requests": "bigint", "written_at": "bigint"},
    """
    INSERT INTO accounts_minutecount AS c (account_id, minute, requests, written_at)
    SELECT a.id, r.minute, r.requests, r.written_at FROM {rows}, accounts_account AS a
    WHERE a.id = r.account_id ORDER BY a.id, r.minute
    ON CONFLICT (account_id, minute) DO UPDATE SET
        requests = c.requests + excluded.requests, written_at = excluded.written_at
    """,
)
ADD_DEPRECATED_CALLS = Statement(
    {
        "account_id": "bigint",
        "operation": "text",
        "day": "date",
        "admitted": "bigint",
        "last_call_at": "timestamptz",
    },
    """
    INSERT INTO accounts_deprecateduse AS u (account_id, operation, day, admitted, last_call_at)
    SELECT a.id, r.operation, r.day, r.admitted, r.last_call_at FROM {rows}, accounts_account AS a
    WHERE a.id = r.account_id ORDER BY a.id, r.operation, r.day
    ON CONFLICT (account_id, operation, day) DO UPDATE SET
        admitted = u.admitted + excluded.admitted,
        last_call_at = CASE WHEN excluded.last_call_at > u.last_call_at
            THEN excluded.last_call_at ELSE u.last_call_at END
    """,
)
ADD_OPERATION_USAGE = Statement(
    {
        "account_id": "bigint",
        "hours": "smallint",
        "start": "bigint",
        "operation": "text",
        "status": "smallint",
        "requests": "bigint",
    },
    """
    INSERT INTO accounts_operationusage AS u (account_id, hours, start, operation, status, requests)
    SELECT a.id, r.hours, r.start, r.operation, r.status, r.requests FROM {rows}, accounts_account AS a
    WHERE a.id = r.account_id ORDER BY a.id, r.hours, r.start, r.operation, r.status
    ON CONFLICT (account_id, hours, start, operation, status) DO UPDATE SET
        requests = u.requests + excluded.requests
    """,
)


@dataclass(slots=True)
class Batch:
    requests: Counter[tuple[int, int]] = field(default_factory=Counter)  # Admitted, by key ID and day.
    rejections: Counter[tuple[int, int]] = field(default_factory=Counter)  # By key ID and day.
    last_used: dict[int, int] = field(default_factory=dict)  # By key ID.
    minutes: Counter[tuple[int, int]] = field(default_factory=Counter)  # By account ID and minute.
    # By account ID, operation and day.
    deprecated_calls: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    last_deprecated_calls: dict[tuple[int, str, int], int] = field(default_factory=dict)
    # By account ID, operation, status and hour.
    responses: Counter[tuple[int, str, int, int]] = field(default_factory=Counter)
    # For keys with an older pepper, by key ID: the current pepper's number, and the new digest.
    digests: dict[int, tuple[int, str]] = field(default_factory=dict)
    rejected_requests: list[RejectedRequest] = field(default_factory=list)
    dropped_rejections: int = 0  # Beyond the limits of the rejection log.

    def merge(self, newer: "Batch") -> None:
        """Merge a later batch. Minute counts and rejections stay bounded."""
        self.requests.update(newer.requests)
        self.rejections.update(newer.rejections)
        self.last_used |= newer.last_used
        self.minutes.update(newer.minutes)
        if len(self.minutes) > MAX_MINUTES:
            latest = sorted(self.minutes, key=lambda account_minute: account_minute[1])[-MAX_MINUTES:]
            self.minutes = Counter({minute: self.minutes[minute] for minute in latest})
        self.deprecated_calls.update(newer.deprecated_calls)
        self.last_deprecated_calls |= newer.last_deprecated_calls
        self.responses.update(newer.responses)
        self.digests = newer.digests  # Older ones are computed again at the next use of their key.
        rejected_requests = self.rejected_requests + newer.rejected_requests
        self.rejected_requests = rejected_requests[:MAX_PER_WRITE]
        surplus = len(rejected_requests) - len(self.rejected_requests)
        self.dropped_rejections += newer.dropped_rejections + surplus

    def write(self, now: int) -> None:
        """Write the counters and times of last use. Call it in a transaction.

        Rows are sorted, so that concurrent writers cannot deadlock.
        """
        ADD_DAILY_USAGE.execute(
            (key_id, format_day(day), self.requests[key_id, day], self.rejections[key_id, day])
            for key_id, day in sorted(self.requests.keys() | self.rejections.keys())
        )
        SET_LAST_USED.execute(
            (key_id, format_time(at), format_time(at - LAST_USED_PRECISION))
            for key_id, at in sorted(self.last_used.items())
        )
        ADD_MINUTE_COUNTS.execute(
            (account_id, minute, requests, now)
            for (account_id, minute), requests in sorted(self.minutes.items())
        )
        ADD_DEPRECATED_CALLS.execute(
            (*call[:2], format_day(call[2]), requests, format_time(self.last_deprecated_calls[call]))
            for call, requests in sorted(self.deprecated_calls.items())
        )
        periods: Counter[tuple[int, int, int, str, int]] = Counter()
        for (account_id, operation, status, hour), requests in self.responses.items():
            for hours in (OperationUsage.HOUR, OperationUsage.DAY):
                periods[account_id, hours, hour - hour % hours, operation, status] += requests
        ADD_OPERATION_USAGE.execute((*period, requests) for period, requests in sorted(periods.items()))


def format_day(day: int) -> str:
    return str(EPOCH + timedelta(days=day))


def format_time(time: int) -> str:
    return str(connection.ops.adapt_datetimefield_value(to_datetime(time)))


def write_digests(digests: dict[int, tuple[int, str]]) -> None:
    """Store digests under a newer pepper, each in its own transaction to prevent deadlocks."""
    for key_id, (pepper_number, digest) in digests.items():
        with transaction.atomic():
            outdated = ApiKey.objects.filter(pk=key_id, pepper_number__lt=pepper_number)
            key = outdated.select_for_update().first()
            if key is not None:
                key.pepper_number, key.digest = pepper_number, digest
                key.save(update_fields=["pepper_number", "digest"])
