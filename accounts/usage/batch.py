"""A batch of usage counters and rejections, and the statements that write it.

Days and minutes are counted since the epoch; times are microseconds since the epoch.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any

from django.db import connection, transaction
from django.db.models import Model

from accounts.models import EPOCH, ApiKey, DailyUsage, DeprecatedUse, MinuteCount, OperationUsage
from accounts.quota.limits import MINUTE, to_datetime
from accounts.usage.rejection_log import MAX_PER_WRITE, RejectedRequest
from petstore.db.identity import is_postgresql

BATCH_SIZE = 5_000  # Rows per statement, about 400 KB.
MAX_MINUTES = 100_000  # Minute counts held during an outage; the oldest are dropped.
LAST_USED_PRECISION = MINUTE

Row = tuple[Any, ...]


# FOR UPDATE locks the rows in the order of the query before they are updated. SQLite has a single writer.
SET_LAST_USED = """
UPDATE accounts_apikey SET last_used_at = stale.at
FROM (
    SELECT k.id, r.at FROM {rows}, accounts_apikey AS k
    WHERE k.id = r.key_id AND (k.last_used_at IS NULL OR k.last_used_at <= r.before)
    ORDER BY k.id {lock}
) AS stale
WHERE accounts_apikey.id = stale.id
"""


def execute(template: str, types: dict[str, str], rows: Iterable[Row]) -> None:
    """Execute SQL for thousands of rows, which are one JSON parameter.

    `{rows}` becomes a table expression r, whose columns have these PostgreSQL types.
    """
    if is_postgresql():
        function, value, lock = "json_array_elements", "(value ->> {})::{}", "FOR NO KEY UPDATE OF k"
    else:
        function, value, lock = "json_each", "json_extract(value, '$[{}]')", ""
    columns = [f"{value.format(index, kind)} AS {name}" for index, (name, kind) in enumerate(types.items())]
    expression = f"(SELECT {', '.join(columns)} FROM {function}(%s)) AS r"  # noqa: S608  Only constants.
    remaining = iter(rows)
    with connection.cursor() as cursor:
        while batch := list(islice(remaining, BATCH_SIZE)):
            cursor.execute(template.format(rows=expression, lock=lock), [json.dumps(batch)])


def add_counts(model: type[Model], rows: Iterable[Row], *, counters: list[str], latest: str = "") -> None:
    """Insert rows, or add their counters to the rows that exist. The field `latest` keeps the later time.

    Rows have the fields of the unique constraint, the counters and `latest`. The first field is a key or an
    account. Those that have been deleted since are skipped.
    """
    (unique,) = model._meta.total_unique_constraints
    names = [*unique.fields, *counters, *filter(None, [latest])]
    fields: list[Any] = [model._meta.get_field(name) for name in names]
    columns = [field.column for field in fields]
    unique_columns = ", ".join(columns[: len(unique.fields)])
    updates = [f"{name} = u.{name} + excluded.{name}" for name in counters]
    if latest:
        later = f"CASE WHEN excluded.{latest} > u.{latest} THEN excluded.{latest} ELSE u.{latest} END"
        updates.append(f"{latest} = {later}")
    execute(
        f"""
        INSERT INTO {model._meta.db_table} AS u ({", ".join(columns)})
        SELECT {", ".join(f"r.{column}" for column in columns)}
        FROM {{rows}}, {fields[0].related_model._meta.db_table} AS owner
        WHERE owner.id = r.{columns[0]} ORDER BY {unique_columns}
        ON CONFLICT ({unique_columns}) DO UPDATE SET {", ".join(updates)}
        """,  # noqa: S608  Only names of the model.
        {field.column: field.db_type(connection) for field in fields},
        rows,
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
        days = sorted(self.requests.keys() | self.rejections.keys())
        add_counts(
            DailyUsage,
            (
                (key, format_day(day), self.requests[key, day], self.rejections[key, day])
                for key, day in days
            ),
            counters=["admitted", "rejected"],
        )
        execute(
            SET_LAST_USED,
            {"key_id": "bigint", "at": "timestamptz", "before": "timestamptz"},
            (
                (key_id, format_time(at), format_time(at - LAST_USED_PRECISION))
                for key_id, at in sorted(self.last_used.items())
            ),
        )
        minutes = sorted(self.minutes.items())
        rows = ((*account_minute, requests, now) for account_minute, requests in minutes)
        add_counts(MinuteCount, rows, counters=["requests"], latest="written_at")
        add_counts(
            DeprecatedUse,
            (
                (*call[:2], format_day(call[2]), requests, format_time(self.last_deprecated_calls[call]))
                for call, requests in sorted(self.deprecated_calls.items())
            ),
            counters=["admitted"],
            latest="last_call_at",
        )
        periods: Counter[tuple[int, int, int, str, int]] = Counter()
        for (account_id, operation, status, hour), requests in self.responses.items():
            for hours in (OperationUsage.HOUR, OperationUsage.DAY):
                periods[account_id, hours, hour - hour % hours, operation, status] += requests
        usage = sorted(periods.items())
        add_counts(
            OperationUsage, ((*period, requests) for period, requests in usage), counters=["requests"]
        )


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
