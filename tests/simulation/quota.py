"""Requests that are counted, by the real scripts in a simulated Redis or in a model of the database."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any
from unittest import mock

from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis_store import RedisQuotaStore
from accounts.quota.store_protocol import QuotaResult
from django.conf import settings
from petstore.event_loop.redis_scripts import TIMEOUT, ScriptRunner

from accounts.events.warnings import find_reached_thresholds
from accounts.keys.key_format import ParsedKey
from accounts.quota import fallback, key_record, redis_store
from accounts.quota.limits import DAY, SECOND, Limits
from accounts.usage import write_behind
from petstore.event_loop import redis_scripts, threads
from tests.simulation.quota_models import Client, DatabaseModel, Recorder, microseconds
from tests.simulation.redis import ADDRESS, SimulatedRedis
from tests.simulation.scenario import Request, Scenario, response_bound
from tests.simulation.threads import Threads
from tests.simulation.world import EPOCH

PLENTY = 1000
PEEKS = 0.3  # The share of requests that only read the account.
COMPARES = 0.2  # The share of requests that peek first, and compare.
MAX_COUNTS = 2  # A request may be counted in Redis, whose reply is lost, and then in the database.
MAX_ROUND_TRIPS = 8  # To Redis, each just within its timeout; usual are up to 3.
SENDER = IPv4Address("127.0.0.1")
ALLOWED = ("127.0.0.0/8",)
MAX_EXPIRIES = 3
# A scenario lasts some seconds: every rejection is a strike, and ten ban a key.
HASTY_BANS = "FIRST_STRIKE_AFTER, STRIKE_INTERVAL, STRIKES_TO_BAN, MIN_REJECTIONS_TO_BAN = 0, 0, 10, 10\n"
SILENT = logging.getLogger("simulation")
SILENT.disabled = True
with mock.patch.object(redis_store, "LUA_CONSTANTS", redis_store.LUA_CONSTANTS + HASTY_BANS):
    HASTY_ADMIT = redis_store.load_script("verify_key.lua", "admit.lua", idempotent=False)


class QuotaScenario(Scenario):
    """A few accounts with small limits, some with allowed networks."""

    recovery = 6.0

    def prepare(self) -> None:
        self.redis = SimulatedRedis(self.world, self.network)
        self.redis.node.slow = self.chance.choice((0.0, 0.0, 0.1))
        self.redis.node.slowest = 0.1 if self.is_calm else 2 * TIMEOUT
        self.database = DatabaseModel(self)
        self.recorder = write_behind.recorder = Recorder(self.database)  # type: ignore[assignment]
        key_record.read = self.database.read
        key_record.QUERY = self.database
        # A single key gets enough requests for a ban.
        self.keys = [self._key(number + 1) for number in range(self.chance.choice((1, 3, 3)))]
        self.store = FallbackQuotaStore(RedisQuotaStore(f"redis://{ADDRESS}/2"), self.database)
        self.changes = 0  # Of the store, or losses of Redis's counters.
        self.admitted: Counter[int] = Counter()
        self.sent: Counter[str] = Counter()  # By key, without peeks.
        self.completed: Counter[str] = Counter()  # Of those.
        self.started_at = self.world.now
        self.last_state = self.store.active_backend
        self.expiries = 0

    @contextmanager
    def patches(self) -> Iterator[None]:
        executor = Threads(self.loop, settings.THREADS)
        with ExitStack() as stack:
            for patch in (
                mock.patch.object(write_behind, "recorder", None),
                mock.patch.object(redis_store, "ADMIT", HASTY_ADMIT),
                mock.patch.object(key_record, "read", None),
                mock.patch.object(key_record, "QUERY", None),
                mock.patch.object(key_record, "from_row", lambda row: row["record"]),
                mock.patch.object(fallback, "threading", self._threading()),
                mock.patch.object(fallback, "monotonic", self.loop.time),
                mock.patch.object(fallback, "connection", SimpleNamespace(close=lambda: None)),
                mock.patch.object(fallback, "logger", SILENT),
                mock.patch.object(redis_scripts, "get_database_id", return_value="the simulated database"),
                mock.patch.object(redis_scripts, "monotonic", self.loop.time),
                mock.patch.object(threads, "get_thread_pool", executor.get),
                mock.patch.object(ScriptRunner, "_connect", return_value=Client(self)),
            ):
                stack.enter_context(patch)
            yield

    def _threading(self) -> SimpleNamespace:
        """A replacement for the module `threading` in virtual time."""
        loop = self.loop

        def thread(*, target: Callable[..., object], args: Any = (), **_: Any) -> SimpleNamespace:
            return SimpleNamespace(start=lambda: loop.start_thread(lambda: target(*args)))

        return SimpleNamespace(
            Lock=threading.Lock,
            Thread=thread,
            Event=lambda: SimpleNamespace(wait=loop.sleep, set=lambda: None),
        )

    def _key(self, number: int) -> ParsedKey:
        public_id = f"account{number}key{number:03}"
        key = ParsedKey(f"psk_live_{public_id}_{number:032}", "live", public_id)
        limits = Limits(*self.chance.choice(((2, PLENTY), (6, PLENTY), (PLENTY, 9), (PLENTY, PLENTY))))
        self.database.add(key, number, limits, self.chance.choice(((), ALLOWED)))
        return key

    def requests(self) -> list[Request]:
        return [self.last_request(number) for number in range(self.chance.randrange(6, 30))]

    def last_request(self, number: int) -> Request:
        key = self.chance.choice(self.keys)
        kind = self.chance.random()
        only_peeks = kind < PEEKS

        def run() -> QuotaResult:
            if only_peeks:
                return self.store.peek(key, SENDER)
            before = self._history(key)
            peeked = self.store.peek(key, SENDER) if before and kind > 1 - COMPARES else None
            self.sent[key.public_id] += 1
            result = self.store.admit(key, SENDER)
            self.completed[key.public_id] += 1
            if peeked and before == self._history(key, 1):
                self._compare(key, peeked, result)
            return result

        return Request(
            f"{number} of {key.public_id}",
            run,
            lambda result: self._check_peek(key, result) if only_peeks else self._check_admit(key, result),
            (),
            MAX_ROUND_TRIPS * 2 * response_bound(TIMEOUT) + fallback.FLUSH_TIMEOUT,
        )

    def _history(self, key: ParsedKey, own: int = 0) -> tuple[int, ...] | None:
        """The requests sent, without this many own ones, and the changes; None while any is in progress."""
        sent, completed = self.sent[key.public_id], self.completed[key.public_id]
        is_quiet = sent == completed and self.store.active_backend == "redis"
        return (sent - own, self.changes) if is_quiet else None

    def _compare(self, key: ParsedKey, peeked: QuotaResult, counted: QuotaResult) -> None:
        """Check that reading the account predicted the next request."""
        assert peeked.decision is not None
        assert counted.decision is not None
        for before, after in zip(peeked.decision.windows, counted.decision.windows, strict=True):
            is_same = before.ends_at == after.ends_at
            if is_same and before.used + counted.decision.admitted != after.used:
                self.world.violate(f"{key.public_id} was shown {before}, then {after}.")

    def _check_peek(self, key: ParsedKey, result: QuotaResult) -> str | None:
        wrong = self._check_identity(key, result)
        if wrong or result.caller is None or result.decision is None:
            return wrong
        record = result.caller.record
        if record is None or record.account_name != self.database.keys[key.public_id].account_name:
            return f"is shown the account {record}"
        used = max(window.used for window in result.decision.windows)
        if used > MAX_COUNTS * self.sent[key.public_id]:
            return f"is shown {used} requests, and sent {self.sent[key.public_id]}"
        return None if result.decision.admitted else "could not read the account"

    def _check_admit(self, key: ParsedKey, result: QuotaResult) -> str | None:
        wrong = self._check_identity(key, result)
        if wrong or result.caller is None or result.decision is None:
            return wrong
        caller, decision = result.caller, result.decision
        self.admitted[caller.account_id] += decision.admitted
        day = decision.windows[-1]
        reached = find_reached_thresholds(caller.account_id, decision.day, day.limit, day.used).keys()
        if missing := reached - self.database.warned:
            return f"reaches {day} before the warning is recorded: {missing}"
        started = self.database.bans[caller.key_id]
        if decision.banned and not started:
            return "is banned before the ban is recorded"
        return f"was banned at {started}" if len(started) > 1 and not self.changes else None

    def _check_identity(self, key: ParsedKey, result: QuotaResult) -> str | None:
        caller, decision = result.caller, result.decision
        if caller is None or decision is None:
            return f"was rejected: {result.rejection}"
        if caller.public_id != key.public_id:
            return f"got the result of {caller.public_id}"
        limits = self.database.keys[key.public_id].limits
        if tuple(window.limit for window in decision.windows) != limits:
            return "got another's limits"
        return None

    def actions(self) -> list[Callable[[], object]]:
        redis = self.redis
        return [self._restart, redis.become_unavailable, redis.fail_over, redis.freeze, redis.cut_each]

    def calm_actions(self) -> list[Callable[[], object]]:
        return [self.redis.flush_scripts, self._expire_records]

    def _restart(self) -> None:
        self.changes += 1  # It may have lost its counters.
        self.redis.restart()

    def _expire_records(self) -> None:
        """Let the cached key records expire."""
        if self.expiries < MAX_EXPIRIES:
            self.expiries += 1
            self.world.note("cached key records expire")
            for name in [name for name in self.redis.node.data if b":key:" in name]:
                del self.redis.node.data[name]

    def observe(self) -> None:
        """Count the changes between Redis and the database."""
        state = self.store.active_backend
        if state != self.last_state:
            self.world.note("the store is", state)
            self.last_state = state
            self.changes += 1
            if self.is_calm:
                self.world.violate("The store left Redis although it is available.")

    def heal(self) -> None:
        self.redis.heal()
        # The first request after a failover may still reach the old server.
        self.loop.call_later(0.1, self._start, PLENTY, self.last_request(PLENTY))

    def check_end(self) -> None:
        if self.store.active_backend != "redis" or self.changes != self.changes_before_last:
            self.world.violate("The store left Redis after the recovery.")
        minutes = 1 + (self.world.now - self.started_at) // 60
        days = 1 + (microseconds(self.world) // DAY > int((EPOCH + self.started_at) * SECOND) // DAY)
        for record in self.database.keys.values():
            limits, admitted = record.limits, self.admitted[record.account_id]
            maximum = min(limits.per_minute * minutes, limits.per_day * days) * (1 + self.changes)
            if admitted > maximum:
                self.world.violate(f"{record.public_id}: {admitted} > {maximum} admitted.")
        shared = self.store._redis._scripts._shared
        assert shared is not None
        self.check_only_connection(shared._connection)

    def start_last(self) -> None:
        self.changes_before_last = self.changes

    def close(self) -> None:
        self.store._redis._scripts.close()
