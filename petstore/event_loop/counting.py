"""Runs statements that count (petstore/db/counting.py) on a connection that many requests share.

Each statement is a transaction of its own, so it holds its locks only while it runs, and within a process
the statements of a group (an account) never wait for each other's locks. One that waits for a lock delays
all others. Therefore a group has few statements in flight, its other requests wait in line, and if its lock
was not released in time, those fail as well, and the group moves to a connection for such groups.

A statement whose connection closes before the reply may have been executed, so it is never repeated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from functools import cache, partial
from itertools import count

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError
from psycopg.errors import LockNotAvailable

from petstore.event_loop.connection import NotExecutedError, Rows, to_django_error
from petstore.event_loop.errors import ConnectionFailedError
from petstore.event_loop.greenlets import QUEUED_TOO_LONG, LoopTimer, RequestTask, current_task, pause
from petstore.event_loop.libpq import Statement, Value
from petstore.event_loop.shared_connection import SharedConnection
from petstore.event_loop.transaction_pipeline import TransactionPipeline

MAX_ATTEMPTS = 5  # To execute a statement, if those before it fail.
MAX_IN_FLIGHT = 3  # Statements per group. If they wait for a lock, so do the others of the connection.
BLOCKED_SECONDS = 60  # Since the last statement of a group that waited too long for a lock.
MAX_BLOCKED = 1_000  # Groups. The one that was blocked first is dropped.


class CountingConnection(SharedConnection):
    connection_class = TransactionPipeline


class Line:
    """The statements of a group in flight, and the requests that wait for their turn."""

    __slots__ = ("in_flight", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting: deque[RequestTask] = deque()

    def wait(self) -> None:
        """Wait for a turn. Raises OperationalError after the queue timeout, or if the group is blocked."""
        task = current_task()
        self.waiting.append(task)
        timer = LoopTimer(settings.QUEUE_TIMEOUT / 1000, partial(self._time_out, task))
        try:
            pause()
        finally:
            timer.cancel()

    def fail_waiting(self, error: OperationalError) -> None:
        while self.waiting:
            own = OperationalError(*error.args)
            own.__cause__ = error.__cause__
            asyncio.get_running_loop().call_soon(self.waiting.popleft().throw, own)

    def _time_out(self, task: RequestTask) -> None:
        if task in self.waiting:
            self.waiting.remove(task)
            task.throw(OperationalError(QUEUED_TOO_LONG))


class CountingConnections:
    def __init__(self) -> None:
        # PgBouncer may give the server to another client between two transactions that were sent together.
        options = settings.DATABASES[DEFAULT_DB_ALIAS]["OPTIONS"]
        self._is_pooled = options.get("prepare_threshold", 0) is None
        self._shared = (SharedConnection if self._is_pooled else CountingConnection)(DEFAULT_DB_ALIAS)
        self._for_blocked = SharedConnection(DEFAULT_DB_ALIAS)
        self._blocked: dict[Hashable, float] = {}  # The loop's time at which a group leaves.
        self._lines: dict[Hashable, Line] = {}  # Of the groups with statements in flight.

    def fetch_rows(self, group: Hashable, statement: Statement, values: list[Value]) -> Rows:
        """Run a statement. Raises Django's database errors."""
        line = self._lines.get(group)
        if line is None:
            line = self._lines[group] = Line()
        if line.in_flight < MAX_IN_FLIGHT:
            line.in_flight += 1
        else:
            line.wait()
        try:
            return self._fetch_rows(group, statement, values)
        except OperationalError as error:
            if isinstance(error.__cause__, LockNotAvailable):
                self._block(group, asyncio.get_running_loop().time() + BLOCKED_SECONDS)
                line.fail_waiting(error)
            raise
        finally:
            if line.waiting:
                asyncio.get_running_loop().call_soon(line.waiting.popleft().switch)
            else:
                line.in_flight -= 1
                if not line.in_flight:
                    del self._lines[group]

    def _fetch_rows(self, group: Hashable, statement: Statement, values: list[Value]) -> Rows:
        loop = asyncio.get_running_loop()
        for attempt in count(1):
            is_blocked = self._blocked.get(group, 0.0) > loop.time()
            shared = self._for_blocked if is_blocked else self._shared
            try:
                isolated = is_blocked or attempt > 1 or self._is_pooled
                return shared.get_connection().fetch_rows(statement, values, isolated=isolated)
            except ConnectionFailedError as error:
                if attempt == MAX_ATTEMPTS or not isinstance(error, NotExecutedError):
                    raise to_django_error(DEFAULT_DB_ALIAS, error) from error
        raise AssertionError  # The last attempt raises.

    def _block(self, group: Hashable, until: float) -> None:
        self._blocked.pop(group, None)  # Reinsert as the newest.
        self._blocked[group] = until
        if len(self._blocked) > MAX_BLOCKED:
            del self._blocked[next(iter(self._blocked))]


@cache
def get_counting_connections() -> CountingConnections:
    return CountingConnections()
