"""What gathers in a process between two writes, and how the database gets it.

Days and minutes are whole ones since the epoch; times are microseconds since it.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Q

from accounts.bans import Ban
from accounts.limits import MINUTE, moment
from accounts.models import EPOCH, Actor, ApiKey, KeyStanding
from accounts.usage.refusals import KEPT_FOR_A_WRITE, Refused
from petstore.backoffice import audit

Rows = list[tuple[Any, ...]]  # The parameters of a statement, in its order.

LOADS_KEPT = 100_000  # Accounts' minutes that may wait for a database that is away; the oldest go first.
LAST_USE_WRITTEN_EVERY = timedelta(minutes=1)  # It is for people.
SERVICE = Actor("the service")

# A key or an account that was deleted meanwhile has no usage to keep.
ADD_USAGE = """
INSERT INTO accounts_dailyusage AS u (key_id, day, requests, refusals)
SELECT id, %s, %s, %s FROM accounts_apikey WHERE id = %s
ON CONFLICT (key_id, day) DO UPDATE SET
    requests = u.requests + excluded.requests, refusals = u.refusals + excluded.refusals
"""
# What the database's own counter does not know yet, because another store counts: see QuotaStore.
ADD_QUOTA = """
INSERT INTO accounts_quotacounter AS q
    (account_id, minute_ends, minute_used, day, day_used, seen_at, admitted)
SELECT id, 0, 0, %s, %s, 0, %s FROM accounts_account WHERE id = %s
ON CONFLICT (account_id) DO UPDATE SET
    day_used = CASE WHEN excluded.day > q.day THEN excluded.day_used
        WHEN excluded.day = q.day THEN q.day_used + excluded.day_used ELSE q.day_used END,
    day_here = CASE WHEN excluded.day > q.day THEN 0 ELSE q.day_here END,
    day = CASE WHEN excluded.day > q.day THEN excluded.day ELSE q.day END
"""
NOTE_USE = """
UPDATE accounts_apikey SET last_used_at = %s
WHERE id = %s AND (last_used_at IS NULL OR last_used_at <= %s)
"""
ADD_LOAD = """
INSERT INTO accounts_minuteload AS l (account_id, minute, requests, written_at)
SELECT id, %s, %s, %s FROM accounts_account WHERE id = %s
ON CONFLICT (account_id, minute) DO UPDATE SET
    requests = l.requests + excluded.requests, written_at = excluded.written_at
"""
ADD_CALLS = """
INSERT INTO accounts_deprecateduse AS u (account_id, operation, day, requests, last_call_at)
SELECT id, %s, %s, %s, %s FROM accounts_account WHERE id = %s
ON CONFLICT (account_id, operation, day) DO UPDATE SET
    requests = u.requests + excluded.requests,
    last_call_at = CASE WHEN excluded.last_call_at > u.last_call_at
        THEN excluded.last_call_at ELSE u.last_call_at END
"""


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
        self.bans += newer.bans
        refused = self.refused + newer.refused
        self.refused = refused[:KEPT_FOR_A_WRITE]
        self.dropped += newer.dropped + len(refused) - len(self.refused)

    def write(self, now: int) -> None:
        """Add to the tables all but bans and refusals; in one order, so that no process blocks another.

        To be called in a transaction. Each table takes one round trip, however many rows there are.
        """
        adapt = connection.ops.adapt_datetimefield_value
        usage: Rows = [
            (EPOCH + timedelta(days=day), self.requests[key_id, day], self.refusals[key_id, day], key_id)
            for key_id, day in sorted(self.requests.keys() | self.refusals.keys())
        ]
        quota: Rows = [
            (day, requests, True, account_id)
            for (account_id, day), requests in sorted(self.elsewhere.items())
        ]
        uses: Rows = [
            (adapt(at), key_id, adapt(at - LAST_USE_WRITTEN_EVERY))
            for key_id, at in sorted((key_id, moment(last)) for key_id, last in self.last_used.items())
        ]
        loads: Rows = [
            (minute, requests, now, account_id)
            for (account_id, minute), requests in sorted(self.loads.items())
        ]
        calls: Rows = [
            (
                operation,
                EPOCH + timedelta(days=day),
                requests,
                adapt(moment(self.last_called[account_id, operation, day])),
                account_id,
            )
            for (account_id, operation, day), requests in sorted(self.calls.items())
        ]
        steps = [
            (ADD_USAGE, usage),
            (ADD_QUOTA, quota),
            (NOTE_USE, uses),
            (ADD_LOAD, loads),
            (ADD_CALLS, calls),
        ]
        with connection.cursor() as cursor:
            for statement, rows in steps:
                if rows:
                    cursor.executemany(statement, rows)
        write_digests(self.digests)


def write_digests(digests: dict[int, tuple[int, str]]) -> None:
    """Store the digests. A key that is further already stays there."""
    if not digests:
        return
    for key in ApiKey.objects.select_for_update().filter(pk__in=digests).order_by("pk"):
        number, digest = digests[key.pk]
        if key.pepper_number < number:
            key.pepper_number, key.digest = number, digest
            key.save(update_fields=["pepper_number", "digest"])  # Which tells Redis: see publishing.py.


def write_bans(bans: list[Ban]) -> None:
    """Record bans: the key's standing, and an audit entry; in one order in every process."""
    for ban in sorted(bans, key=lambda ban: ban.key_id):
        key = ApiKey.objects.filter(pk=ban.key_id).first()
        later = Q(banned_at__gt=ban.began_at)
        lifted = Q(banned_at=ban.began_at, banned_until__lt=ban.ends_at)
        if key is None or KeyStanding.objects.filter(later | lifted, key=key).exists():
            continue
        facts = {"banned_at": ban.began_at, "banned_until": ban.ends_at, "ban_level": ban.level}
        KeyStanding.objects.update_or_create(key=key, defaults=facts)
        minutes = (ban.ends_at - ban.began_at) // MINUTE
        reason = f"{ban.strikes} requests before their Retry-After ran out. Banned for {minutes} minutes."
        audit.record(SERVICE, key, audit.Action.BANNED, reason=reason)
