"""What gathers in a process between two writes, and how the database gets it.

Days and minutes are whole ones since the epoch; times are microseconds since it.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.db import connection, transaction

from accounts.events.warnings import Reached
from accounts.models import EPOCH, Actor, ApiKey, KeyStanding
from accounts.quota.bans import Ban
from accounts.quota.limits import MINUTE, moment
from accounts.usage.rejection_log import KEPT_FOR_A_WRITE, Refused
from petstore.backoffice import audit
from petstore.db.identity import is_postgresql
from petstore.observability.metrics import BANS

AT_ONCE = 5_000  # Rows of one statement: some 400 KB.
LOADS_KEPT = 100_000  # Accounts' minutes that may wait for a database that is away; the oldest go first.
LAST_USE_WRITTEN_EVERY = MINUTE  # It is for people.
SERVICE = Actor("the service")


class Statement(NamedTuple):
    """SQL about thousands of rows that come with it, as JSON, which both databases read as a table.

    It names them `{rows}`, a table expression called r. `{lock}` locks the rows of a table called k, in the
    order of the query, before they are updated; SQLite has one writer anyway.
    """

    columns: dict[str, str]  # In order, with their types on PostgreSQL; SQLite takes them as they come.
    sql: str

    def run(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run it, in portions of AT_ONCE rows."""
        left = iter(rows)
        with connection.cursor() as cursor:
            while portion := list(islice(left, AT_ONCE)):
                cursor.execute(self._text(), [json.dumps(portion)])

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


# A key or an account that was deleted meanwhile has no usage to keep.
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
# What the database's own counter does not know yet, because another store counts: see QuotaStore.
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
NOTE_USE = Statement(
    {"key_id": "bigint", "at": "timestamptz", "before": "timestamptz"},
    """
    UPDATE accounts_apikey SET last_used_at = unnoted.at
    FROM (
        SELECT k.id, r.at FROM {rows}, accounts_apikey AS k
        WHERE k.id = r.key_id AND (k.last_used_at IS NULL OR k.last_used_at <= r.before)
        ORDER BY k.id {lock}
    ) AS unnoted
    WHERE accounts_apikey.id = unnoted.id
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
    """What one write takes."""

    requests: Counter[tuple[int, int]] = field(default_factory=Counter)  # Admitted, by key id and day.
    refusals: Counter[tuple[int, int]] = field(default_factory=Counter)  # By key id and day.
    last_used: dict[int, int] = field(default_factory=dict)  # By key id.
    # Of the requests, those that a store beside the database has counted; by account id and day.
    elsewhere: Counter[tuple[int, int]] = field(default_factory=Counter)
    # Requests by account id and minute: what "what if" is calculated from.
    loads: Counter[tuple[int, int]] = field(default_factory=Counter)
    # Calls of operations that will be removed, by account id, operation and day; and the last one.
    calls: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    last_called: dict[tuple[int, str, int], int] = field(default_factory=dict)
    # By key id, for keys under an older pepper: the number of the one that signs, and the digest with it.
    digests: dict[int, tuple[int, str]] = field(default_factory=dict)
    reached: Reached = field(default_factory=dict)
    bans: list[Ban] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    dropped: int = 0  # Refusals that are not kept: there were too many.

    def add(self, newer: "Batch") -> None:
        """Take in what has gathered since; of loads and refusals only so many, of digests the newer."""
        self.requests.update(newer.requests)
        self.refusals.update(newer.refusals)
        self.last_used |= newer.last_used
        self.elsewhere.update(newer.elsewhere)
        self.loads.update(newer.loads)
        if len(self.loads) > LOADS_KEPT:
            latest = sorted(self.loads, key=lambda place: place[1])[-LOADS_KEPT:]
            self.loads = Counter({place: self.loads[place] for place in latest})
        self.calls.update(newer.calls)
        self.last_called |= newer.last_called
        self.digests = newer.digests  # The others come again with the keys' next use.
        self.reached = newer.reached | self.reached
        self.bans += newer.bans
        refused = self.refused + newer.refused
        self.refused = refused[:KEPT_FOR_A_WRITE]
        self.dropped += newer.dropped + len(refused) - len(self.refused)

    def write(self, now: int) -> None:
        """Add all but bans, digests and refusals to the tables, in one order: nobody blocks another.

        To be called in a transaction. Each table takes one statement for thousands of rows.
        """
        adapt = connection.ops.adapt_datetimefield_value

        def time_text(at: int) -> str:
            return str(adapt(moment(at)))

        ADD_USAGE.run(
            (key_id, day_text(day), self.requests[key_id, day], self.refusals[key_id, day])
            for key_id, day in sorted(self.requests.keys() | self.refusals.keys())
        )
        # A counter has one day: what comes for an earlier one than its last changes nothing.
        latest = dict(sorted(self.elsewhere))
        ADD_QUOTA.run((*place, self.elsewhere[place]) for place in latest.items())
        NOTE_USE.run(
            (key_id, time_text(at), time_text(at - LAST_USE_WRITTEN_EVERY))
            for key_id, at in sorted(self.last_used.items())
        )
        ADD_LOAD.run((*place, requests, now) for place, requests in sorted(self.loads.items()))
        ADD_CALLS.run(
            (*place[:2], day_text(place[2]), requests, time_text(self.last_called[place]))
            for place, requests in sorted(self.calls.items())
        )


def day_text(day: int) -> str:
    return str(EPOCH + timedelta(days=day))


def write_digests(digests: dict[int, tuple[int, str]]) -> None:
    """Store the digests, each key's in a transaction of its own: whoever holds one row waits for no other.

    A key that is further already stays there.
    """
    for pk, (number, digest) in digests.items():
        with transaction.atomic():
            key = ApiKey.objects.select_for_update().filter(pk=pk, pepper_number__lt=number).first()
            if key is not None:
                key.pepper_number, key.digest = number, digest
                key.save(update_fields=["pepper_number", "digest"])  # Which tells Redis: see publishing.py.


def write_bans(bans: list[Ban]) -> None:
    """Record bans: the key's standing, and an audit entry; in one order in every process."""
    for ban in sorted(bans, key=lambda ban: ban.key_id):
        key = ApiKey.objects.filter(pk=ban.key_id).first()
        if key is None:
            continue
        # Locked before it is compared: staff may be lifting this ban.
        standing, _ = KeyStanding.objects.select_for_update().get_or_create(key=key)
        lifted = standing.banned_at == ban.began_at and standing.banned_until < ban.ends_at
        if lifted or standing.banned_at > ban.began_at:
            continue
        standing.banned_at, standing.banned_until, standing.ban_level = ban.began_at, ban.ends_at, ban.level
        standing.save(update_fields=["banned_at", "banned_until", "ban_level"])
        if not key.tell_of_ban(ban.began_at):  # Another process had to do with it, too.
            continue
        transaction.on_commit(BANS.inc)  # A write that failed comes again.
        audit.record(SERVICE, key, audit.Action.BANNED, reason=ban.reason)
