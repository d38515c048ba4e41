"""Models of the quota store's dependencies in virtual time: database, recorder, Redis client."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import hiredis
from accounts.quota.store_protocol import QuotaResult
from django.conf import settings
from petstore.event_loop.redis_connection import pack
from petstore.event_loop.redis_scripts import TIMEOUT, Script

from accounts.events.warnings import find_reached_thresholds
from accounts.keys import key_format
from accounts.keys.identity import Caller, KeyRecord
from accounts.keys.key_format import ParsedKey
from accounts.quota import key_record
from accounts.quota.bans import Ban
from accounts.quota.limits import DAY, MINUTE, SECOND, Counters, Limits, RateLimitDecision, build_windows
from petstore.event_loop.greenlets import is_on_loop, wait
from tests.simulation.redis import ADDRESS
from tests.simulation.scenario import Scenario
from tests.simulation.world import EPOCH, World


class Row:
    """An account's counters in the database."""

    def __init__(self) -> None:
        self.minute_ends_at = self.minute_used = self.day = self.day_used = self.day_used_in_database = 0

    @property
    def shown(self) -> Counters:
        return Counters(self.minute_ends_at, self.minute_used, self.day, self.day_used)


class DatabaseModel:
    """The database: keys and exact counters. It is slow, but always available."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.keys: dict[str, KeyRecord] = {}
        self.counters: dict[int, Row] = {}
        self.warned: set[tuple[int, int, int]] = set()  # Account, day, threshold.
        self.bans: dict[int, set[int]] = defaultdict(set)  # When they started, by the key's id.

    def add(self, key: ParsedKey, number: int, limits: Limits, networks: tuple[str, ...]) -> None:
        pepper = max(settings.API_KEY_PEPPERS)
        self.keys[key.public_id] = dataclasses.replace(
            key_record.build_dummy_record(key.public_id),
            id=number,
            account_id=number,
            digest=key_format.compute_digest(key, settings.API_KEY_PEPPERS[pepper]),
            pepper_number=pepper,
            networks=networks,
            revoked=False,
            limits=limits,
            account_name=f"Account {number}",
        )
        self.counters[number] = Row()

    def read(self, public_id: str) -> KeyRecord:
        self.take_time()
        record = self.keys[public_id]
        counters = self.counters[record.account_id]
        return dataclasses.replace(
            record,
            day=counters.day,
            day_used=counters.day_used,
            day_used_in_database=counters.day_used_in_database,
        )

    def filter(self, public_id__in: Sequence[str]) -> list[dict[str, Any]]:
        """Return rows like the query for key records."""
        return [{"public_id": one, "record": self.read(one)} for one in public_id__in]

    def admit(
        self, key: ParsedKey, address: Any, now: int | None = None, *, may_write: bool = False
    ) -> QuotaResult:
        """Count like DatabaseQuotaStore."""
        record = self.read(key.public_id)
        now = microseconds(self._scenario.world)
        counters, limits = self.counters[record.account_id], record.limits
        self._start_day(counters, now)
        if now >= counters.minute_ends_at:
            counters.minute_ends_at, counters.minute_used = now + MINUTE, 0
        admitted = counters.minute_used < limits.per_minute and counters.day_used < limits.per_day
        use = counters.day_used + admitted
        self.warned |= find_reached_thresholds(record.account_id, counters.day, limits.per_day, use).keys()
        for name in ("minute_used", "day_used", "day_used_in_database"):
            setattr(counters, name, getattr(counters, name) + admitted)
        windows = build_windows(limits, counters.shown, now)
        self.take_time()
        return QuotaResult(caller=record.caller, decision=RateLimitDecision(admitted, windows, now))

    def peek(self, key: ParsedKey, address: Any, now: int | None = None) -> QuotaResult:
        """Read like DatabaseQuotaStore."""
        record = self.read(key.public_id)
        now = microseconds(self._scenario.world)
        counters = self.counters[record.account_id]
        day_used = counters.day_used if now // DAY == counters.day else 0
        shown = counters.shown._replace(day=now // DAY, day_used=day_used)
        windows = build_windows(record.limits, shown, now)
        self.take_time()
        caller = record.caller._replace(record=record)
        return QuotaResult(caller=caller, decision=RateLimitDecision(True, windows, now))

    def add_elsewhere(self, account: int, requests: int) -> None:
        """Add the counts of Redis."""
        self._start_day(self.counters[account], microseconds(self._scenario.world))
        self.counters[account].day_used += requests

    def take_time(self) -> None:
        loop = self._scenario.loop
        seconds = self._scenario.chance.uniform(0, 0.003)
        if is_on_loop():
            done = loop.create_future()
            loop.call_later(seconds, done.set_result, None)
            wait(done)
        else:
            loop.sleep(seconds)

    def _start_day(self, counters: Row, now: int) -> None:
        if now // DAY > counters.day:
            counters.day, counters.day_used, counters.day_used_in_database = now // DAY, 0, 0


class Recorder:
    """The requests that this process has counted in Redis and not flushed yet."""

    def __init__(self, database: DatabaseModel) -> None:
        self._database = database
        self._counted: Counter[int] = Counter()
        self._is_writing = False

    def count(self, caller: Caller, decision: RateLimitDecision, *, in_redis: bool = False) -> None:
        self._counted[caller.account_id] += decision.admitted and in_redis

    def record_key_use(self, *_: Any) -> None:
        """Ignore the last use."""

    def has_unwritten_requests(self, account: int) -> bool:
        return self._is_writing or self._counted[account] > 0

    def write(self) -> None:
        counted, self._counted = self._counted, Counter()
        self._is_writing = True
        self._database.take_time()
        for account, requests in counted.items():
            self._database.add_elsewhere(account, requests)
        self._is_writing = False

    def wake(self) -> None:
        """Write in a thread."""
        self._database._scenario.loop.start_thread(self.write)

    def rehash(self, *_: Any) -> None:
        """Do nothing: all keys have the newest pepper."""

    def store_warnings(self, account: int, day: int, limit: int, used: int) -> bool:
        """Record the warnings; the database is always available."""
        self._database.take_time()
        self._database.warned |= find_reached_thresholds(account, day, limit, used).keys()
        return True

    def record_ban(self, ban: Ban) -> None:
        """Record it without publishing it: Redis must know its own decision."""
        self._database.take_time()
        self._database.bans[ban.key_id].add(ban.started_at)


class Client:
    """Redis's client for threads, with a connection per command."""

    is_cluster = False

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def run(self, script: Script, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        return self.run_all(script, [(names, arguments)])[0]

    def run_all(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Any]]]) -> list[Any]:
        outcome: list[Any] = []  # Of connecting.
        socket = self._scenario.network.connect(ADDRESS, outcome.append)
        try:
            self._sleep_until(lambda: bool(outcome))
            if outcome[0] is None:
                raise ConnectionRefusedError(111, "Connection refused")
            reader = hiredis.Reader(notEnoughData=StopIteration)
            replies: list[Any] = []
            for names, arguments in calls:
                socket.send([pack(("EVAL", script.source, len(names), *names, *arguments))])
                self._sleep_until(lambda: bool(socket.inbox or socket.ended))
                while (reply := reader.gets()) is StopIteration:
                    self._sleep_until(lambda: bool(socket.inbox or socket.ended))
                    if not socket.inbox:
                        raise ConnectionResetError(104, "Connection reset by peer")
                    reader.feed(b"".join(socket.take()))
                if isinstance(reply, hiredis.HiredisError):
                    raise reply
                replies.append(reply)
            return replies
        finally:
            socket.close()

    def _sleep_until(self, condition: Callable[[], bool]) -> None:
        loop = self._scenario.loop
        for _ in range(round(TIMEOUT / 0.02)):
            if condition():
                return
            loop.sleep(0.02)
        raise TimeoutError("No reply in time.")

    def close(self) -> None:
        """Do nothing: no connection is kept open."""


def microseconds(world: World) -> int:
    """The Unix time of all simulated clocks."""
    return round((EPOCH + world.now) * SECOND)
