"""Faults that the engine once had, or might have: each taken back into it for the length of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from math import ceil
from typing import Any
from unittest import mock

from accounts.quota import redis_store
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis_store import RedisQuotaStore
from petstore.loop import connection, pipe, scripts
from petstore.loop.connection import Connection, PipeError
from petstore.loop.redis import RedisConnection, RedisPipe
from petstore.loop.scripts import RedisUnavailableError
from petstore.loop.waiting import TICK
from tests.system.simulation.postgresql_faults import (
    Planted,
    commit_that_rolled_back,
    forgotten_by_another,
    lent_twice,
    no_connection_is_closed,
    nothing,
    open_transactions_in_the_pool,
    repeated_writes,
    results_before_the_sync,
    shifted_by_a_failure,
    taken_along_again,
    unheard_commit,
)
from tests.system.simulation.quota_models import Recorder

__all__ = ["FAULTS", "forgotten_by_another", "inherited_row", "late_waiter", "patience_by_the_clock"]

Fault = Callable[[], AbstractContextManager[None]]


def for_ever(_: float) -> int:
    """Return more ticks than anybody lives to see."""
    return 10**9


def enter_without_looking(self: Connection, waiter: Any, put: Any, *arguments: Any) -> None:
    """Stand in the row, whether the connection is lost or not."""
    put(*arguments)
    self._row.append((waiter, self._now))


@contextmanager
def late_waiter() -> Planted:
    """Who comes to a lost connection stands in its row."""
    with mock.patch.object(Connection, "_enter", enter_without_looking):
        yield


@contextmanager
def inherited_row() -> Planted:
    """Who comes to a lost connection stands in its row, and the next connection takes the row over."""
    open_one = RedisPipe._open

    async def open_with_row(self: RedisPipe) -> RedisConnection:
        opened = await open_one(self)
        opened._row = self.__dict__.setdefault("row", opened._row)
        return opened

    with late_waiter(), mock.patch.object(RedisPipe, "_open", open_with_row):
        yield


@contextmanager
def deaf_waiters() -> Planted:
    """A lost connection does not tell those who wait."""
    with mock.patch.object(Connection, "_end", lambda self, _: self._disconnect()):
        yield


@contextmanager
def patience_by_the_clock() -> Planted:
    """An answer is late when the clock says so, whatever the process did meanwhile."""

    def ask_clock(self: Connection) -> None:
        self._now = round(self._loop.time() / TICK)
        if self._sent and self._now - self._moved >= self._patience:
            self.lose(PipeError("No answer came in time."))
        else:
            self._next_tick = self._loop.call_later(TICK, self._tick)

    def enter(self: Connection, waiter: Any, put: Any, *arguments: Any) -> None:
        self._now = round(self._loop.time() / TICK)
        real(self, waiter, put, *arguments)

    real = Connection._enter
    with mock.patch.object(Connection, "_tick", ask_clock), mock.patch.object(Connection, "_enter", enter):
        yield


@contextmanager
def no_second_look() -> Planted:
    """The last tick blames the server before the loop has read what came."""
    with mock.patch.object(connection, "ticks", lambda seconds: ceil(seconds / TICK)):
        yield


@contextmanager
def connecting_by_the_clock() -> Planted:
    """A connection is late when the clock says so."""

    async def within(seconds: float, awaitable: Any) -> Any:
        return await asyncio.wait_for(awaitable, seconds)

    with mock.patch.object(pipe, "within", within):
        yield


@contextmanager
def endless_patience() -> Planted:
    """Nobody's patience ends."""
    with mock.patch.object(connection, "ticks", for_ever):
        yield


@contextmanager
def forgotten_socket() -> Planted:
    """A connection that is closed forgets its socket."""
    with mock.patch.object(RedisConnection, "_disconnect", nothing):
        yield


# --- The quota -----------------------------------------------------------------------------------


@contextmanager
def second_miss_blames_redis() -> Planted:
    """Facts that end between two steps of one request pass for a failure of Redis."""
    with (
        mock.patch.object(redis_store, "ROUNDS", 2),
        mock.patch.object(redis_store, "RedisUndecidedError", RedisUnavailableError),
    ):
        yield


@contextmanager
def replica_is_kept() -> Planted:
    """The connection to a server that has become a replica is kept."""
    with (
        mock.patch.object(scripts, "NOT_THE_PRIMARY", ()),
        mock.patch.object(scripts.Scripts, "renew", nothing),
    ):
        yield


@contextmanager
def replica_is_found_late() -> Planted:
    """The connection to a server that became a replica while Redis was left is used again at first."""
    with mock.patch.object(scripts.Scripts, "renew", nothing):
        yield


@contextmanager
def replies_for_nobody() -> Planted:
    """A reply that is for another is taken."""

    def own(self: RedisQuotaStore, public_id: str, reply: list[Any]) -> list[Any]:
        return reply[1:]

    with inherited_row(), mock.patch.object(RedisQuotaStore, "_own", own):
        yield


@contextmanager
def admitted_past_the_limit() -> Planted:
    """What Redis refuses is admitted."""

    read = redis_store.read_reply

    def read_reply(key: Any, reply: Any) -> Any:
        found = read(key, reply)
        verdict = found.verdict
        return found if verdict is None else found._replace(verdict=verdict._replace(admitted=True))

    with mock.patch.object(redis_store, "read_reply", read_reply):
        yield


@contextmanager
def warned_too_late() -> Planted:
    """A request counts, and reaches a threshold, before that is on record."""
    with mock.patch.object(Recorder, "warn_first", return_value=False):
        yield


@contextmanager
def banned_off_the_record() -> Planted:
    """A ban begins before it is on record."""
    with mock.patch.object(Recorder, "ban", nothing):
        yield


@contextmanager
def looks_that_count() -> Planted:
    """A look at the account counts as a request does."""
    real = RedisQuotaStore.look

    def look(self: RedisQuotaStore, key: Any, *arguments: Any) -> Any:
        self.admit(key, *arguments)
        return real(self, key, *arguments)

    with mock.patch.object(RedisQuotaStore, "look", look):
        yield


@contextmanager
def no_way_back() -> Planted:
    """Redis is never asked again."""
    with mock.patch.object(FallbackQuotaStore, "_return", nothing):
        yield


FAULTS: dict[str, tuple[Fault, ...]] = {
    "quota": (
        late_waiter,
        inherited_row,
        replies_for_nobody,
        patience_by_the_clock,
        second_miss_blames_redis,
        replica_is_kept,
        admitted_past_the_limit,
        warned_too_late,
        banned_off_the_record,
        looks_that_count,
        no_way_back,
    ),
    "redis": (
        late_waiter,
        inherited_row,
        deaf_waiters,
        patience_by_the_clock,
        no_second_look,
        connecting_by_the_clock,
        endless_patience,
        forgotten_socket,
    ),
    "reads": (
        late_waiter,
        deaf_waiters,
        patience_by_the_clock,
        taken_along_again,
        shifted_by_a_failure,
    ),
    "writes": (
        unheard_commit,
        commit_that_rolled_back,
        open_transactions_in_the_pool,
        repeated_writes,
        lent_twice,
        results_before_the_sync,
        no_connection_is_closed,
    ),
}
