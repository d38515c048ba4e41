"""Faults that the engine once had or might have, each planted for a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import ceil
from typing import Any, NamedTuple
from unittest import mock

from psycopg import pq

from petstore.db.event_loop import (
    connection,
    connector,
    counting,
    dbapi,
    shared_connection,
)
from petstore.db.event_loop.connection import PostgresqlConnection
from petstore.db.event_loop.connection_pool import ConnectionPool
from petstore.db.event_loop.counting import CountingConnections
from petstore.db.event_loop.dbapi import COMMIT, ROLLED_BACK, LoopConnection
from petstore.db.event_loop.errors import ConnectionFailedError
from petstore.db.event_loop.greenlets import TICK, RequestTask
from petstore.db.event_loop.shared_connection import SharedConnection
from petstore.db.event_loop.transaction_pipeline import MESSAGES, TransactionPipeline


class Patch(NamedTuple):
    """The replacement of an attribute of the engine."""

    owner: Any
    name: str
    value: Any


class Fault:
    """Patches, and the kinds of scenario that find them."""

    def __init__(self, found_in: str, *patches: Patch) -> None:
        self.found_in = found_in.split()
        self.patches = patches


def nothing(*_: object) -> None:
    pass


def enqueue_unchecked(self: PostgresqlConnection, receiver: Any, put: Any, *arguments: Any) -> None:
    put(*arguments)
    self._queue.append((receiver, self._now))


real_connect = SharedConnection._connect
real_enqueue = PostgresqlConnection._enqueue
real_resolve_next = PostgresqlConnection._resolve_next
real_fetch_rows = PostgresqlConnection.fetch_rows


async def connect_with_inherited_queue(self: SharedConnection) -> PostgresqlConnection:
    opened = await real_connect(self)
    opened._queue = self.__dict__.setdefault("queue", opened._queue)
    return opened


def tick_by_the_clock(self: PostgresqlConnection) -> None:
    self._now = round(self._loop.time() / TICK)
    if self._sent_count and self._now - self._head_since >= self._timeout_ticks:
        self.fail(ConnectionFailedError("No reply in time."))
    else:
        self._next_tick = self._loop.call_later(TICK, self._tick)


def enqueue_by_the_clock(self: PostgresqlConnection, receiver: Any, put: Any, *arguments: Any) -> None:
    self._now = round(self._loop.time() / TICK)
    real_enqueue(self, receiver, put, *arguments)


async def with_timeout_by_the_clock(seconds: float, awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, seconds)


def first_usable(self: ConnectionPool) -> PostgresqlConnection | None:
    return next((one for one in self._idle if one.is_usable), None)


def lend_to_any(self: ConnectionPool, task: RequestTask, lent: PostgresqlConnection) -> None:
    task.switch(lent)


def commit_without_waiting(self: LoopConnection) -> None:
    if self._lent is not None:
        self._lent.send(b"COMMIT")
        self._lent._send()
        self._give_back()


def commit_unchecked(self: LoopConnection) -> None:
    if self._lent is not None:
        self._lent.execute(COMMIT, ())
        self._give_back()


def deliver_before_sync(self: PostgresqlConnection) -> None:
    found, self._results = self._results, []
    for _ in range(self._batch_sizes.popleft() if self._batch_sizes else 0):
        self._resolve_next(found.pop(0))


def resolve_without_dequeuing(self: PostgresqlConnection, reply: Any) -> None:
    if getattr(reply, "status", None) == pq.ExecStatus.FATAL_ERROR:
        receiver, _ = self._queue[0]
        if receiver is not None:
            receiver.switch(reply)
    else:
        real_resolve_next(self, reply)


def fetch_rows_in_shared_batch(
    self: PostgresqlConnection, statement: Any, values: Any, *, isolated: bool = False
) -> Any:
    return real_fetch_rows(self, statement, values)


def deliver_without_commit(self: TransactionPipeline, results: list[Any]) -> None:
    for result in results[1::MESSAGES] or results:
        self._resolve_next(result)


ENQUEUE_WHEN_CLOSED = Patch(PostgresqlConnection, "_enqueue", enqueue_unchecked)
INHERITED_QUEUE = (ENQUEUE_WHEN_CLOSED, Patch(SharedConnection, "_connect", connect_with_inherited_queue))
SHARED_BATCH = Patch(PostgresqlConnection, "fetch_rows", fetch_rows_in_shared_batch)

FAULTS: dict[str, Fault] = {
    "a request to a closed connection joins its queue": Fault("counting reads", ENQUEUE_WHEN_CLOSED),
    "a new connection inherits the queue of a closed one": Fault("counting reads", *INHERITED_QUEUE),
    "a closed connection does not fail its pending requests": Fault(
        "counting reads", Patch(PostgresqlConnection, "_shut_down", lambda self, _: self._disconnect())
    ),
    "a reply times out by the clock although the process was stopped": Fault(
        "counting reads",
        Patch(PostgresqlConnection, "_tick", tick_by_the_clock),
        Patch(PostgresqlConnection, "_enqueue", enqueue_by_the_clock),
    ),
    "the last tick blames the server before the loop has read its input": Fault(
        "counting", Patch(connection, "timeout_in_ticks", lambda seconds: ceil(seconds / TICK))
    ),
    "connecting times out by the clock": Fault(
        "reads", Patch(connector, "with_timeout", with_timeout_by_the_clock)
    ),
    "no request times out": Fault("counting reads", Patch(connection, "timeout_in_ticks", lambda _: 10**9)),
    "a closed connection leaks its socket": Fault(
        "counting reads", Patch(PostgresqlConnection, "_disconnect", nothing)
    ),
    "counting statements share a transaction": Fault(
        "counting", Patch(counting, "TransactionPipeline", PostgresqlConnection)
    ),
    "a failed transaction of a counting statement stays open": Fault(
        "counting", Patch(TransactionPipeline, "_put_rollback", nothing)
    ),
    "a count is acknowledged although its COMMIT failed": Fault(
        "counting", Patch(TransactionPipeline, "_deliver", deliver_without_commit)
    ),
    "a request whose reply was lost is counted again": Fault(
        "counting", Patch(shared_connection, "NotExecutedError", ConnectionFailedError)
    ),
    "a group has any number of statements in flight": Fault(
        "counting", Patch(counting, "MAX_IN_FLIGHT", 10**9)
    ),
    "a blocked group stays on its connection": Fault(
        "counting", Patch(CountingConnections, "_block", nothing)
    ),
    "a commit is acknowledged before the server confirms it": Fault(
        "writes", Patch(LoopConnection, "commit", commit_without_waiting)
    ),
    "the reply to COMMIT is not checked": Fault(
        "writes", Patch(LoopConnection, "commit", commit_unchecked)
    ),
    "a failed transaction stays open and its connection is lent again": Fault(
        "writes",
        Patch(LoopConnection, "rollback", LoopConnection._give_back),
        Patch(PostgresqlConnection, "is_idle", True),
    ),
    "a write whose reply was lost is retried": Fault(
        "writes", Patch(dbapi, "NotExecutedError", ConnectionFailedError)
    ),
    "a connection is lent to two requests at the same time": Fault(
        "writes", Patch(ConnectionPool, "_pop_idle", first_usable)
    ),
    "a connection is lent to a request that was cancelled in the queue": Fault(
        "writes", Patch(ConnectionPool, "_lend", lend_to_any)
    ),
    "a lost COMMIT is called a rollback": Fault("writes", Patch(dbapi, "UNCONFIRMED", ROLLED_BACK)),
    "a write succeeds before the Sync that commits it": Fault(
        "writes", Patch(PostgresqlConnection, "_deliver_batch", deliver_before_sync)
    ),
    "a failed request leaves its place in the queue": Fault(
        "reads", Patch(PostgresqlConnection, "_resolve_next", resolve_without_dequeuing)
    ),
    "a statement aborted by another's failure is retried in a shared batch": Fault("reads", SHARED_BATCH),
    "a connection that opens after its timeout stays open": Fault(
        "writes", Patch(connector, "close_unclaimed", nothing)
    ),
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """Plant a fault into the engine."""
    with ExitStack() as stack:
        for patch in FAULTS[fault].patches:
            stack.enter_context(mock.patch.object(*patch))
        yield
