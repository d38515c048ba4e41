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

from django.conf import settings

from accounts.events.warnings import find_reached_thresholds
from accounts.keys.key_format import ParsedKey
from accounts.quota import fallback, key_record, redis_store
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.limits import DAY, SECOND, Limits
from accounts.quota.redis_store import RedisQuotaStore
from accounts.quota.store_protocol import QuotaResult
from accounts.usage import write_behind
from petstore.event_loop import redis_scripts, threads
from petstore.event_loop.redis_scripts import TIMEOUT, ScriptRunner
from tests.simulation.quota_models import Client, DatabaseModel, Recorder, microseconds
from tests.simulation.redis import ADDRESS, SimulatedRedis
from tests.simulation.scenario import Request, Scenario, answer_bound
from tests.simulation.threads import Threads
from tests.simulation.world import EPOCH

PLENTY = 1000
LOOKS = 0.3  # Of the requests.
COMPARES = 0.2  # Of the requests look first, and compare.
CHARGES = 2  # A request may be counted in Redis, whose answer is lost, and then in the database.
STEPS = 8  # Questions to Redis that are answered in the last moment, at most; usual are up to 3.
SENDER = IPv4Address("127.0.0.1")
ALLOWED = ("127.0.0.0/8",)
MOST_FACTS_END = 3
# A scenario lasts some seconds: every refusal is a strike, and ten ban a key.
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
        # One that has all requests may be banned.
        self.keys = [self._key(number + 1) for number in range(self.chance.choice((1, 3, 3)))]
        self.store = FallbackQuotaStore(RedisQuotaStore(f"redis://{ADDRESS}/2"), self.database)
        self.changes = 0  # Of the store, or of what Redis knows.
        self.admitted: Counter[int] = Counter()
        self.sent: Counter[str] = Counter()  # By key, but for looks.
        self.answered: Counter[str] = Counter()  # Of those.
        self.began = self.world.now
        self.last_state = self.store.active_backend
        self.facts_ended = 0

    @contextmanager
    def patches(self) -> Iterator[None]:
        executor = Threads(self.loop, settings.THREADS)
        with ExitStack() as stack:
            for patch in (
                mock.patch.object(write_behind, "recorder", None),
                mock.patch.object(redis_store, "ADMIT", HASTY_ADMIT),
                mock.patch.object(key_record, "read", None),
                mock.patch.object(key_record, "QUERY", None),
                mock.patch.object(key_record, "from_row", lambda row: row["facts"]),
                mock.patch.object(fallback, "threading", self._threading()),
                mock.patch.object(fallback, "monotonic", self.loop.time),
                mock.patch.object(fallback, "connection", SimpleNamespace(close=lambda: None)),
                mock.patch.object(fallback, "logger", SILENT),
                mock.patch.object(redis_scripts, "get_database_id", return_value="the simulated database"),
                mock.patch.object(redis_scripts, "monotonic", self.loop.time),
                mock.patch.object(threads, "get_thread_pool", executor.get),
                mock.patch.object(ScriptRunner, "_connect", self._client),
            ):
                stack.enter_context(patch)
            yield

    def _client(self) -> Client:
        return Client(self)

    def _threading(self) -> SimpleNamespace:
        """Patch the store's threads to use virtual time."""
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
        looks = kind < LOOKS

        def ask() -> QuotaResult:
            if looks:
                return self.store.peek(key, SENDER)
            before = self._history(key)
            seen = self.store.peek(key, SENDER) if before and kind > 1 - COMPARES else None
            self.sent[key.public_id] += 1
            result = self.store.admit(key, SENDER)
            self.answered[key.public_id] += 1
            if seen and before == self._history(key, 1):
                self._compare(key, seen, result)
            return result

        return Request(
            f"{number} of {key.public_id}",
            ask,
            lambda result: self._wrong_look(key, result) if looks else self._wrong(key, result),
            (),
            STEPS * 2 * answer_bound(TIMEOUT) + fallback.FLUSH_TIMEOUT,
        )

    def _history(self, key: ParsedKey, own: int = 0) -> tuple[int, ...] | None:
        """Return what has happened but for so many of one's own requests; None if another is under way."""
        sent, answered = self.sent[key.public_id], self.answered[key.public_id]
        is_quiet = sent == answered and self.store.active_backend == "redis"
        return (sent - own, self.changes) if is_quiet else None

    def _compare(self, key: ParsedKey, seen: QuotaResult, counted: QuotaResult) -> None:
        """Check that reading the account predicted the next request."""
        assert seen.decision is not None
        assert counted.decision is not None
        for told, found in zip(seen.decision.windows, counted.decision.windows, strict=True):
            runs_on = told.ends_at == found.ends_at
            if runs_on and told.used + counted.decision.admitted != found.used:
                self.world.violate(f"{key.public_id} was shown {told}, then found {found}.")

    def _wrong_look(self, key: ParsedKey, result: QuotaResult) -> str | None:
        wrong = self._not_its_own(key, result)
        if wrong or result.caller is None or result.decision is None:
            return wrong
        facts = result.caller.record
        if facts is None or facts.account_name != self.database.keys[key.public_id].account_name:
            return f"is shown the account {facts}"
        used = max(window.used for window in result.decision.windows)
        if used > CHARGES * self.sent[key.public_id]:
            return f"is shown {used} requests, and sent {self.sent[key.public_id]}"
        return None if result.decision.admitted else "was refused a look"

    def _wrong(self, key: ParsedKey, result: QuotaResult) -> str | None:
        wrong = self._not_its_own(key, result)
        if wrong or result.caller is None or result.decision is None:
            return wrong
        caller, decision = result.caller, result.decision
        self.admitted[caller.account_id] += decision.admitted
        day = decision.windows[-1]
        reached = find_reached_thresholds(caller.account_id, decision.day, day.limit, day.used).keys()
        if missing := reached - self.database.warned:
            return f"is told of {day} before the warning: {missing}"
        begun = self.database.bans[caller.key_id]
        if decision.banned and not begun:
            return "is banned, and that is nowhere on record"
        return f"was banned at {begun}" if len(begun) > 1 and not self.changes else None

    def _not_its_own(self, key: ParsedKey, result: QuotaResult) -> str | None:
        caller, decision = result.caller, result.decision
        if caller is None or decision is None:
            return f"was refused: {result.rejection}"
        if caller.public_id != key.public_id:
            return f"is taken for {caller.public_id}"
        limits = self.database.keys[key.public_id].limits
        if tuple(window.limit for window in decision.windows) != limits:
            return "got another's limits"
        return None

    def actions(self) -> list[Callable[[], object]]:
        redis = self.redis
        return [self._restart, redis.go_away, redis.fail_over, redis.freeze, redis.cut_one]

    def calm_actions(self) -> list[Callable[[], object]]:
        return [self.redis.forget_scripts, self._end_facts]

    def _restart(self) -> None:
        self.changes += 1  # It may have lost its counters.
        self.redis.restart()

    def _end_facts(self) -> None:
        """Let the cached key records expire."""
        if self.facts_ended < MOST_FACTS_END:
            self.facts_ended += 1
            self.world.note("facts end")
            for name in [name for name in self.redis.node.data if b":key:" in name]:
                del self.redis.node.data[name]

    def look(self) -> None:
        """Count the changes between Redis and the database."""
        state = self.store.active_backend
        if state != self.last_state:
            self.world.note("the store is", state)
            self.last_state = state
            self.changes += 1
            if self.is_calm:
                self.world.violate("Redis was left although it is well.")

    def heal(self) -> None:
        self.redis.heal()
        # The first request after a failover may still reach the old server.
        self.loop.call_later(0.1, self._start, PLENTY, self.last_request(PLENTY))

    def check_end(self) -> None:
        if self.store.active_backend != "redis" or self.changed_lately:
            self.world.violate("Redis is left although all was well again.")
        minutes = 1 + (self.world.now - self.began) // 60
        days = 1 + (microseconds(self.world) // DAY > int((EPOCH + self.began) * SECOND) // DAY)
        for facts in self.database.keys.values():
            limits = facts.limits
            most = min(limits.per_minute * minutes, limits.per_day * days) * (1 + self.changes)
            if self.admitted[facts.account_id] > most:
                self.world.violate(
                    f"{facts.public_id}: {self.admitted[facts.account_id]} > {most} admitted."
                )
        shared = self.store._redis._scripts._shared
        assert shared is not None
        self.check_that_one_is_held(shared._connection)

    @property
    def changed_lately(self) -> bool:
        """Whether the store changed among the last requests."""
        return self.last_changes != self.changes

    def start_last(self) -> None:
        """Note the state before the last requests."""
        self.last_changes = self.changes

    def close(self) -> None:
        self.store._redis._scripts.close()
