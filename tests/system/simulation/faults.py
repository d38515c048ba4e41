"""Faults that the engine once had, or might have: each taken back into it for the length of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import ceil
from typing import Any, NamedTuple
from unittest import mock

from psycopg import pq

from accounts.quota import redis_store
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis_store import RedisQuotaStore
from petstore.event_loop import (
    connection,
    connection_pool,
    opening,
    pg_connection,
    redis_scripts,
    shared_connection,
)
from petstore.event_loop.connection import Connection, ConnectionFailedError
from petstore.event_loop.connection_pool import COMMIT, ConnectionPool, Transaction
from petstore.event_loop.greenlets import TICK
from petstore.event_loop.pg_connection import PostgresqlConnection
from petstore.event_loop.redis_connection import RedisConnection, SharedRedisConnection
from petstore.event_loop.redis_scripts import RedisUnavailableError, Scripts
from tests.system.simulation.quota_models import Recorder


class Patch(NamedTuple):
    """What is put in the place of a part of the engine."""

    owner: Any
    name: str
    value: Any


class Fault:
    """What is wrong, and the kinds of scenario that find it."""

    def __init__(self, found_in: str, *patches: Patch) -> None:
        self.found_in = found_in.split()
        self.patches = patches


def nothing(*_: object) -> None:
    """Do nothing."""


def enter_without_looking(self: Connection, waiter: Any, put: Any, *arguments: Any) -> None:
    """Stand in the row, whether the connection is lost or not."""
    put(*arguments)
    self._queue.append((waiter, self._now))


real_open = SharedRedisConnection._open
real_enter = Connection._enqueue
real_answer = Connection._resolve_next
real_rows = PostgresqlConnection.rows
real_forget = PostgresqlConnection.forget
real_look = RedisQuotaStore.look
real_read_reply = redis_store.read_reply


async def open_with_row(self: SharedRedisConnection) -> RedisConnection:
    opened = await real_open(self)
    opened._queue = self.__dict__.setdefault("row", opened._queue)
    return opened


def tick_by_the_clock(self: Connection) -> None:
    self._now = round(self._loop.time() / TICK)
    if self._sent and self._now - self._head_since >= self._timeout_ticks:
        self.fail(ConnectionFailedError("No answer came in time."))
    else:
        self._next_tick = self._loop.call_later(TICK, self._tick)


def enter_by_the_clock(self: Connection, waiter: Any, put: Any, *arguments: Any) -> None:
    self._now = round(self._loop.time() / TICK)
    real_enter(self, waiter, put, *arguments)


async def within_by_the_clock(seconds: float, awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, seconds)


def admit_anything(key: Any, reply: Any) -> Any:
    found = real_read_reply(key, reply)
    decision = found.decision
    return found if decision is None else found._replace(decision=decision._replace(admitted=True))


def look_and_count(self: RedisQuotaStore, key: Any, *arguments: Any) -> Any:
    self.admit(key, *arguments)
    return real_look(self, key, *arguments)


def first_that_is_open(self: ConnectionPool) -> PostgresqlConnection | None:
    return next((one for one in self._idle if one.is_usable), None)


def deliver_before_the_sync(self: PostgresqlConnection) -> None:
    found, self._results = self._results, []
    for _ in range(self._sizes.popleft() if self._sizes else 0):
        self._resolve_next(found.pop(0))


def answer_and_stay(self: Connection, reply: Any) -> None:
    if getattr(reply, "status", None) == pq.ExecStatus.FATAL_ERROR:
        waiter, _ = self._queue[0]
        if waiter is not None:
            waiter.switch(reply)
    else:
        real_answer(self, reply)


def rows_together(
    self: PostgresqlConnection, statement: Any, values: Any, *, isolated: bool = False
) -> Any:
    return real_rows(self, statement, values)


def forget_any(self: PostgresqlConnection, statement: Any, preparation: Any = None) -> None:
    real_forget(self, statement)


LATE_WAITER = Patch(Connection, "_enqueue", enter_without_looking)
INHERITED_ROW = (LATE_WAITER, Patch(SharedRedisConnection, "_open", open_with_row))
TOGETHER = Patch(PostgresqlConnection, "rows", rows_together)
NO_RENEWAL = Patch(Scripts, "reconnect", nothing)

FAULTS: dict[str, Fault] = {
    "who comes to a lost connection stands in its row": Fault("quota redis reads", LATE_WAITER),
    "the next connection takes over the row of a lost one": Fault("quota redis", *INHERITED_ROW),
    "a lost connection does not tell those who wait": Fault(
        "redis reads", Patch(Connection, "_shut_down", lambda self, _: self._disconnect())
    ),
    "an answer is late by the clock, whatever the process did meanwhile": Fault(
        "quota redis reads",
        Patch(Connection, "_tick", tick_by_the_clock),
        Patch(Connection, "_enqueue", enter_by_the_clock),
    ),
    "the last tick blames the server before the loop has read what came": Fault(
        "redis", Patch(connection, "timeout_in_ticks", lambda seconds: ceil(seconds / TICK))
    ),
    "a connection is late by the clock": Fault(
        "redis", Patch(shared_connection, "with_timeout", within_by_the_clock)
    ),
    "nobody's patience ends": Fault("redis", Patch(connection, "timeout_in_ticks", lambda _: 10**9)),
    "a connection that is closed forgets its socket": Fault(
        "redis", Patch(RedisConnection, "_disconnect", nothing)
    ),
    "facts that end between two steps of a request pass for a failure of Redis": Fault(
        "quota",
        Patch(redis_store, "ROUNDS", 2),
        Patch(redis_store, "RedisUndecidedError", RedisUnavailableError),
    ),
    "the connection to a server that has become a replica is kept": Fault(
        "quota",
        Patch(redis_scripts, "NOT_THE_PRIMARY", ()),
        NO_RENEWAL,
    ),
    "a server that became a replica while Redis was left is used again at first": Fault("", NO_RENEWAL),
    "a reply that is for another is taken": Fault(
        "quota",
        *INHERITED_ROW,
        Patch(RedisQuotaStore, "_own", lambda self, public_id, reply: reply[1:]),
    ),
    "what Redis refuses is admitted": Fault("quota", Patch(redis_store, "read_reply", admit_anything)),
    "a request reaches a threshold before that is on record": Fault(
        "quota", Patch(Recorder, "warn_first", lambda *_: False)
    ),
    "a ban begins before it is on record": Fault("quota", Patch(Recorder, "ban", nothing)),
    "a look at the account counts as a request": Fault(
        "quota", Patch(RedisQuotaStore, "look", look_and_count)
    ),
    "Redis is never asked again": Fault("quota", Patch(FallbackQuotaStore, "_return", nothing)),
    "a commit is acknowledged before the server has said so": Fault(
        "writes", Patch(Transaction, "commit", lambda self: self.send(COMMIT))
    ),
    "what the server answered to COMMIT is not read": Fault(
        "writes", Patch(Transaction, "commit", lambda self: self._run(COMMIT))
    ),
    "a transaction that failed is left open, and its connection lent again": Fault(
        "writes",
        Patch(Transaction, "roll_back", nothing),
        Patch(PostgresqlConnection, "is_idle", True),
    ),
    "a write whose answer was lost is sent again": Fault(
        "writes", Patch(connection_pool, "NotExecutedError", ConnectionFailedError)
    ),
    "a connection is lent while somebody has it": Fault(
        "writes", Patch(ConnectionPool, "_next_idle", first_that_is_open)
    ),
    "a write is called done before the Sync that commits it": Fault(
        "writes", Patch(PostgresqlConnection, "_deliver_batch", deliver_before_the_sync)
    ),
    "who hears of a failure leaves a place in the row": Fault(
        "reads", Patch(Connection, "_resolve_next", answer_and_stay)
    ),
    "a statement is prepared again though another request has done so": Fault(
        "",
        Patch(PostgresqlConnection, "forget", forget_any),
        TOGETHER,
        Patch(pg_connection, "DUPLICATE_STATEMENT", b""),
    ),
    "what another's failure took along is asked again in a batch with others": Fault("reads", TOGETHER),
    "a connection that comes after its time is left open": Fault(
        "writes", Patch(opening, "close_unclaimed", nothing)
    ),
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """Have the engine do wrong what this says."""
    with ExitStack() as stack:
        for patch in FAULTS[fault].patches:
            stack.enter_context(mock.patch.object(*patch))
        yield
