"""What lasts of the counting: requests and refusals for each key and day, the last use, bans, and more.

Kept in the process and written behind, every few seconds and at the end, so that no request waits for it;
a crash loses at most that much. A write adds what this process has counted, in one transaction, and what
could not be written is kept for the next one: nothing is counted twice.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from multiprocessing.util import Finalize
from typing import Any

from django.db import Error, connection, transaction
from django.db.models import Q

from accounts.bans import Ban
from accounts.caller import Caller
from accounts.key_text import KeyText
from accounts.limits import DAY, MINUTE, SECOND, Verdict, moment
from accounts.models import EPOCH, Actor, ApiKey, KeyStanding, signing_pepper
from accounts.usage import deprecated_calls, loads, refusals, rehash
from accounts.usage.deprecated_calls import Uses
from accounts.usage.loads import Loads
from accounts.usage.refusals import Refused
from accounts.usage.rehash import Digests
from petstore.backoffice import audit
from petstore.loop.threads import in_thread
from petstore.observability.metrics import BANS

logger = logging.getLogger(__name__)

WRITE_EVERY = 5  # Seconds; the promise is 10.
TIDY_EVERY = 60  # Seconds.
LOADS_KEPT = 100_000  # Accounts' minutes that may wait for a database that is away; the oldest go first.
LAST_USE_WRITTEN_EVERY = timedelta(minutes=1)
SERVICE = Actor("the service")

# A key that was deleted meanwhile has no usage to keep.
ADD_USAGE = """
INSERT INTO accounts_dailyusage AS u (key_id, day, requests, refusals)
SELECT id, %(day)s, %(requests)s, %(refusals)s FROM accounts_apikey WHERE id = %(key)s
ON CONFLICT (key_id, day) DO UPDATE SET
    requests = u.requests + excluded.requests, refusals = u.refusals + excluded.refusals
"""

# What the database's own counter does not know yet, because another store counts: see QuotaStore.
ADD_QUOTA = """
INSERT INTO accounts_quotacounter AS q
    (account_id, minute_ends, minute_used, day, day_used, seen_at, admitted)
SELECT id, 0, 0, %(day)s, %(requests)s, 0, %(yes)s FROM accounts_account WHERE id = %(account)s
ON CONFLICT (account_id) DO UPDATE SET
    day_used = CASE WHEN excluded.day > q.day THEN excluded.day_used
        WHEN excluded.day = q.day THEN q.day_used + excluded.day_used ELSE q.day_used END,
    day_here = CASE WHEN excluded.day > q.day THEN 0 ELSE q.day_here END,
    day = CASE WHEN excluded.day > q.day THEN excluded.day ELSE q.day END
"""

# At most once a minute: it is for people.
NOTE_USE = """
UPDATE accounts_apikey SET last_used_at = %(at)s
WHERE id = %(key)s AND (last_used_at IS NULL OR last_used_at <= %(before)s)
"""


@dataclass(slots=True)
class Tally:
    """What one key did on one day since the last write."""

    account_id: int
    requests: int = 0
    elsewhere: int = 0  # Of the requests, those that a store beside the database has counted.
    refusals: int = 0
    last_used: int = 0


@dataclass(slots=True)
class Batch:
    """What one write takes: tallies by key id and day since the epoch, and what other modules gather."""

    tallies: dict[tuple[int, int], Tally] = field(default_factory=dict)
    bans: list[Ban] = field(default_factory=list)
    loads: Loads = field(default_factory=dict)
    deprecated: Uses = field(default_factory=dict)
    digests: Digests = field(default_factory=dict)


class UsageRecorder:
    def __init__(self) -> None:
        self._batch = Batch()
        self._refusals = refusals.RefusalBuffer()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._wake = threading.Event()

    def count(self, caller: Caller, verdict: Verdict, *, elsewhere: bool = False) -> None:
        """Note one request. `elsewhere`: counted by a store beside the database."""
        key_day = (caller.key_id, verdict.day)
        minute = (caller.account_id, verdict.now // MINUTE)
        with self._lock:
            batch = self._batch
            tally = batch.tallies.get(key_day)
            if tally is None:
                tally = batch.tallies[key_day] = Tally(caller.account_id)
            tally.last_used = verdict.now
            if not verdict.banned:  # No other numbers would have admitted it.
                batch.loads[minute] = batch.loads.get(minute, 0) + 1
            if verdict.admitted:
                tally.requests += 1
                tally.elsewhere += elsewhere
            else:
                tally.refusals += 1

    def owes(self, account_id: int) -> bool:
        """Tell whether the database may lack requests of this account that another store has counted."""
        with self._lock:
            tallies = list(self._batch.tallies.values())
        return self._writing.locked() or any(
            tally.elsewhere and tally.account_id == account_id for tally in tallies
        )

    def rehash(self, key: KeyText, key_id: int, pepper_number: int) -> None:
        """Note a proven key under an older pepper, to be hashed with the one that signs now."""
        if pepper_number < signing_pepper():
            with self._lock:
                rehash.note(self._batch.digests, key, key_id)

    def refuse(self, refused: Refused) -> None:
        self._refusals.add(refused)

    def call_deprecated(self, caller: Caller, operation: str, now: int) -> None:
        """Note an admitted call of a deprecated operation; `count` has counted it."""
        with self._lock:
            deprecated_calls.add(self._batch.deprecated, (caller.account_id, operation, now // DAY), 1, now)

    def ban(self, ban: Ban) -> None:
        """Record a ban now, for staff to see; if the database is away, with the next write."""
        BANS.inc()
        with self._lock:
            self._batch.bans.append(ban)
        in_thread(self._write_usage)
        self.wake()  # Redis is told there: who was banned need not wait for that.

    def start(self, chore: Callable[[], object]) -> None:
        """Write every few seconds from now on, in a thread of its own, and once more at the end.

        `chore`: what else is to be done there each time. It may use the database.
        """
        threading.Thread(target=self._run, args=[chore], name="usage", daemon=True).start()
        atexit.register(self.stop)
        Finalize(None, self.stop, exitpriority=1)  # A worker process ends without atexit.

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self.write()

    def _run(self, chore: Callable[[], object]) -> None:
        tidied = time.monotonic()
        while not self._stopping.is_set():
            self._wake.wait(WRITE_EVERY)
            self._wake.clear()
            steps = [self.write, chore]
            if time.monotonic() - tidied >= TIDY_EVERY:
                tidied = time.monotonic()
                steps.append(tidy)
            for step in steps:
                do(step)

    def wake(self) -> None:
        """Write, and do the chore, now; in the thread that does so every few seconds."""
        self._wake.set()

    def write(self) -> None:
        """Write what has gathered; keep it if the database doesn't take it."""
        self._write_usage()
        self._refusals.write()

    def _write_usage(self) -> None:
        with self._writing:
            with self._lock:
                batch, self._batch = self._batch, Batch()
            if not (batch.tallies or batch.bans or batch.deprecated):
                return
            try:
                with transaction.atomic():
                    write_bans(batch.bans)
                batch.bans = []
                with transaction.atomic():
                    write_tallies(batch.tallies)
                    loads.write(batch.loads, time.time_ns() // 1000)
                    deprecated_calls.write(batch.deprecated)
                    rehash.write(batch.digests)
            except Error:
                logger.warning("Usage could not be written; it is kept for the next write.", exc_info=True)
                self._keep(batch)

    def _keep(self, batch: Batch) -> None:
        with self._lock:
            newer, self._batch = self._batch, batch
            batch.digests = newer.digests  # The others come again with the keys' next use.
            batch.bans += newer.bans
            for place, tally in newer.tallies.items():
                kept = batch.tallies.setdefault(place, Tally(tally.account_id))
                kept.requests += tally.requests
                kept.elsewhere += tally.elsewhere
                kept.refusals += tally.refusals
                kept.last_used = max(kept.last_used, tally.last_used)
            for minute, requests in newer.loads.items():
                batch.loads[minute] = batch.loads.get(minute, 0) + requests
            if len(batch.loads) > LOADS_KEPT:
                latest = sorted(batch.loads, key=lambda place: place[1])[-LOADS_KEPT:]
                batch.loads = {minute: batch.loads[minute] for minute in latest}
            for use, (requests, last) in newer.deprecated.items():
                deprecated_calls.add(batch.deprecated, use, requests, last)


def do(step: Callable[[], object]) -> None:
    """Do a step, whatever happens, on a connection of its own: one that broke would break them all."""
    try:
        step()
    except Exception:
        logger.exception("A step of what is written behind failed; it comes again.")
    finally:
        with suppress(Error):
            connection.close()


def tidy(now: int | None = None) -> None:
    """Roll up minutes, and delete what is kept no longer. `now`: microseconds since the epoch."""
    now = time.time_ns() // 1000 if now is None else now
    try:
        loads.roll_up(now)
        for prune in (refusals.prune, loads.prune, deprecated_calls.prune):
            prune(now)
    except Error:
        logger.warning("Old records could not be tidied up; they will be in a minute.", exc_info=True)


def write_tallies(tallies: dict[tuple[int, int], Tally]) -> None:
    """Add to the tables; in one order in every process, so that two never wait for each other."""
    in_order = sorted(tallies.items())
    usage: list[dict[str, Any]] = [
        {
            "key": key_id,
            "day": EPOCH + timedelta(days=day),
            "requests": tally.requests,
            "refusals": tally.refusals,
        }
        for (key_id, day), tally in in_order
    ]
    quota: list[dict[str, Any]] = [
        {"account": tally.account_id, "day": day, "requests": tally.elsewhere, "yes": True}
        for (_, day), tally in sorted(in_order, key=lambda item: item[1].account_id)
        if tally.elsewhere
    ]
    uses = [last_use(key_id, moment(tally.last_used)) for (key_id, _), tally in in_order]
    with connection.cursor() as cursor:  # Each list goes in one round trip, however many keys there are.
        for statement, rows in ((ADD_USAGE, usage), (ADD_QUOTA, quota), (NOTE_USE, uses)):
            if rows:
                cursor.executemany(statement, rows)


def last_use(key_id: int, used_at: datetime) -> dict[str, Any]:
    adapt = connection.ops.adapt_datetimefield_value
    return {"key": key_id, "at": adapt(used_at), "before": adapt(used_at - LAST_USE_WRITTEN_EVERY)}


def write_bans(bans: Iterable[Ban]) -> None:
    """Record bans: the key's standing, and an audit entry; in one order in every process."""
    for ban in sorted(bans, key=lambda ban: ban.key_id):
        key = ApiKey.objects.filter(pk=ban.key_id).first()
        later = Q(banned_at__gt=ban.began_at)
        lifted = Q(banned_at=ban.began_at, banned_until__lt=ban.ends_at)
        if key is None or KeyStanding.objects.filter(later | lifted, key=key).exists():
            continue
        KeyStanding.objects.update_or_create(
            key=key,
            defaults={
                "banned_at": ban.began_at,
                "banned_until": ban.ends_at,
                "ban_level": ban.level,
            },
        )
        minutes = (ban.ends_at - ban.began_at) // (60 * SECOND)
        reason = f"{ban.strikes} requests before their Retry-After ran out. Banned for {minutes} minutes."
        audit.record(SERVICE, key, audit.Action.BANNED, reason=reason)


recorder = UsageRecorder()
