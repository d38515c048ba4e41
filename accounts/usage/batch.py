"""The counts that a process collects between two writes, and the SQL that writes them.

Days and minutes are numbered since the epoch; times are microseconds since the epoch.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.db import connection, transaction

from accounts.events.warnings import ReachedThresholds
from accounts.models import EPOCH, Actor, ApiKey, KeyStanding
from accounts.quota.bans import Ban
from accounts.quota.limits import MINUTE, to_datetime
from accounts.usage.rejection_log import MAX_PER_WRITE, RejectedRequest
from petstore.backoffice import audit
from petstore.db.identity import is_postgresql
from petstore.observability.metrics import BANS

BATCH_SIZE = 5_000  # Rows of one statement: some 400 KB.
MAX_MINUTES = 100_000  # Minute counts stored during an outage; the oldest are dropped.
LAST_USED_PRECISION = MINUTE
SERVICE = Actor("the service")


class Statement(NamedTuple):
    """SQL with thousands of rows as one JSON parameter, which works on both databases.

    `{rows}` becomes a table expression r. `{lock}` locks the rows of table k in the order of the query,
    before they are updated; SQLite has a single writer anyway.
    """

    columns: dict[str, str]  # Names and PostgreSQL types, in order.
    sql: str

    def run(self, rows: Iterable[tuple[Any, ...]]) -> None:
        left = iter(rows)
        with connection.cursor() as cursor:
            while batch := list(islice(left, BATCH_SIZE)):
                cursor.execute(self._text(), [json.dumps(batch)])

    def _text(self) -> str:
        if is_postgresql():
            function, item, lock = "json_array_elements", "(value ->> {})::{}", "FOR NO KEY UPDATE OF k"
        else:
            function, item, lock = "json_each", "json_extract(value, '$[{}]')", ""
        items = (
            f"{item.format(number, kind)} AS {name}"
            for number, (name, kind) in enumerate(self.columns.items())
        )
        rows = f"(SELECT {', '.join(items)} FROM {function}(%s)) AS r"  # noqa: S608  Only constants.
        return self.sql.format(rows=rows, lock=lock)


# The joins drop usage of keys and accounts deleted since it was counted.
ADD_USAGE = Statement(
    {"key_id": "bigint", "day": "date", "requests": "bigint", "refusals": "bigint"},
    """
    INSERT INTO accounts_dailyusage AS u (key_id, day, requests, refusals)
    SELECT k.id, r.day, r.requests, r.refusals FROM {rows}, accounts_apikey AS k
    WHERE k.id = r.key_id ORDER BY k.id, r.day
    ON CONFLICT (key_id, day) DO UPDATE SET
        requests = u.requests + excluded.requests, refusals = u.refusals + excluded.refusals
    """,
)
# Adds what Redis counted to the counter of the database.
ADD_QUOTA = Statement(
    {"account_id": "bigint", "day": "bigint", "requests": "bigint"},
    """
    INSERT INTO accounts_quotacounter AS q
        (account_id, minute_ends, minute_used, day, day_used, seen_at, admitted)
    SELECT a.id, 0, 0, r.day, r.requests, 0, true FROM {rows}, accounts_account AS a
    WHERE a.id = r.account_id ORDER BY a.id
    ON CONFLICT (account_id) DO UPDATE SET
        day_used = CASE WHEN excluded.day > q.day THEN excluded.day_used
            WHEN excluded.day = q.day THEN q.day_used + excluded.day_used ELSE q.day_used END,
        day_here = CASE WHEN excluded.day > q.day THEN 0 ELSE q.day_here END,
        day = CASE WHEN excluded.day > q.day THEN excluded.day ELSE q.day END
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
ADD_LOAD = Statement(
    {"account_id": "bigint", "minute": "bigint", "requests": "bigint", "written_at": "bigint"},
    """
    INSERT INTO accounts_minuteload AS l (account_id, minute, requests, written_at)
    SELECT a.id, r.minute, r.requests, r.written_at FROM {rows}, accounts_account AS a
    WHERE a.id = r.account_id ORDER BY a.id, r.minute
    ON CONFLICT (account_id, minute) DO UPDATE SET
        requests = l.requests + excluded.requests, written_at = excluded.written_at
    """,
)
ADD_CALLS = Statement(
    {
        "account_id": "bigint",
        "operation": "text",
        "day": "date",
        "requests": "bigint",
        "last_call_at": "timestamptz",
    },
    """
    INSERT INTO accounts_deprecateduse AS u (account_id, operation, day, requests, last_call_at)
    SELECT a.id, r.operation, r.day, r.requests, r.last_call_at FROM {rows}, accounts_account AS a
    WHERE a.id = r.account_id ORDER BY a.id, r.operation, r.day
    ON CONFLICT (account_id, operation, day) DO UPDATE SET
        requests = u.requests + excluded.requests,
        last_call_at = CASE WHEN excluded.last_call_at > u.last_call_at
            THEN excluded.last_call_at ELSE u.last_call_at END
    """,
)


@dataclass(slots=True)
class Batch:
    requests: Counter[tuple[int, int]] = field(default_factory=Counter)  # Admitted, by key id and day.
    rejections: Counter[tuple[int, int]] = field(default_factory=Counter)  # By key id and day.
    last_used: dict[int, int] = field(default_factory=dict)  # By key id.
    # The requests that Redis counted, by account id and day.
    in_redis: Counter[tuple[int, int]] = field(default_factory=Counter)
    # By account id and minute, for what-if.
    minutes: Counter[tuple[int, int]] = field(default_factory=Counter)
    # By account id, operation and day.
    deprecated_calls: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    last_deprecated_calls: dict[tuple[int, str, int], int] = field(default_factory=dict)
    # For keys under an older pepper, by key id: the current pepper's number, and the digest with it.
    digests: dict[int, tuple[int, str]] = field(default_factory=dict)
    reached: ReachedThresholds = field(default_factory=dict)
    bans: list[Ban] = field(default_factory=list)
    rejected: list[RejectedRequest] = field(default_factory=list)
    dropped: int = 0  # Rejections beyond the limits of the log.

    def add(self, newer: "Batch") -> None:
        """Merge a later batch. Minute counts and rejections stay bounded; only the newer digests stay."""
        self.requests.update(newer.requests)
        self.rejections.update(newer.rejections)
        self.last_used |= newer.last_used
        self.in_redis.update(newer.in_redis)
        self.minutes.update(newer.minutes)
        if len(self.minutes) > MAX_MINUTES:
            latest = sorted(self.minutes, key=lambda minute: minute[1])[-MAX_MINUTES:]
            self.minutes = Counter({minute: self.minutes[minute] for minute in latest})
        self.deprecated_calls.update(newer.deprecated_calls)
        self.last_deprecated_calls |= newer.last_deprecated_calls
        self.digests = newer.digests  # The next use of a key brings the others again.
        self.reached = newer.reached | self.reached
        self.bans += newer.bans
        rejected = self.rejected + newer.rejected
        self.rejected = rejected[:MAX_PER_WRITE]
        self.dropped += newer.dropped + len(rejected) - len(self.rejected)

    def write(self, now: int) -> None:
        """Write everything except bans, warnings, digests and rejections. Call it in a transaction.

        Rows are sorted, so that concurrent writers cannot deadlock.
        """
        adapt = connection.ops.adapt_datetimefield_value

        def time_text(at: int) -> str:
            return str(adapt(to_datetime(at)))

        ADD_USAGE.run(
            (key_id, day_text(day), self.requests[key_id, day], self.rejections[key_id, day])
            for key_id, day in sorted(self.requests.keys() | self.rejections.keys())
        )
        # A counter has one day, so only each account's latest day matters.
        latest = dict(sorted(self.in_redis))
        ADD_QUOTA.run((*account_day, self.in_redis[account_day]) for account_day in latest.items())
        SET_LAST_USED.run(
            (key_id, time_text(at), time_text(at - LAST_USED_PRECISION))
            for key_id, at in sorted(self.last_used.items())
        )
        ADD_LOAD.run((*minute, requests, now) for minute, requests in sorted(self.minutes.items()))
        ADD_CALLS.run(
            (*call[:2], day_text(call[2]), requests, time_text(self.last_deprecated_calls[call]))
            for call, requests in sorted(self.deprecated_calls.items())
        )


def day_text(day: int) -> str:
    return str(EPOCH + timedelta(days=day))


def write_digests(digests: dict[int, tuple[int, str]]) -> None:
    """Store the digests, each in its own transaction, which prevents deadlocks.

    A key that already has this or a newer pepper stays as it is.
    """
    for pk, (number, digest) in digests.items():
        with transaction.atomic():
            key = ApiKey.objects.select_for_update().filter(pk=pk, pepper_number__lt=number).first()
            if key is not None:
                key.pepper_number, key.digest = number, digest
                key.save(update_fields=["pepper_number", "digest"])  # Published by publication.py.


def write_bans(bans: list[Ban]) -> None:
    """Store bans in KeyStanding and the audit trail, sorted by key to prevent deadlocks."""
    for ban in sorted(bans, key=lambda ban: ban.key_id):
        key = ApiKey.objects.filter(pk=ban.key_id).first()
        if key is None:
            continue
        # Lock before comparing: staff may be lifting this ban.
        state, _ = KeyStanding.objects.select_for_update().get_or_create(key=key)
        lifted = state.banned_at == ban.started_at and state.banned_until < ban.ends_at
        if lifted or state.banned_at > ban.started_at:
            continue
        state.banned_at, state.banned_until, state.ban_level = ban.started_at, ban.ends_at, ban.next_level
        state.save(update_fields=["banned_at", "banned_until", "ban_level"])
        if not key.add_ban_event(ban.started_at):  # Another process stored the same ban.
            continue
        transaction.on_commit(BANS.inc)  # A failed write is retried.
        audit.record(SERVICE, key, audit.Action.BANNED, reason=ban.reason)
