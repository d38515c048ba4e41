"""Runs statements that count (petstore/db/counting.py) on a connection that many requests share.

Each statement is a transaction of its own, so it holds its locks only while it runs, and within a process
the statements of a group (an account) never wait for each other's locks. One that waits for a lock delays
all others. Therefore a group has few statements in flight, its other requests wait in line, and if its lock
was not released in time, those fail as well, and the group moves to a connection for such groups.

A statement whose connection closes before the reply may have been executed, so it is never repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from functools import cache

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError
from psycopg.errors import LockNotAvailable

from petstore.db.event_loop.connection import PostgresqlConnection, Rows
from petstore.db.event_loop.greenlets import RequestQueue
from petstore.db.event_loop.libpq import Statement, Value
from petstore.db.event_loop.shared_connection import SharedConnection
from petstore.db.event_loop.transaction_pipeline import TransactionPipeline

MAX_IN_FLIGHT = 3  # Statements per group. If they wait for a lock, so do the others of the connection.
BLOCKED_SECONDS = 60  # Since the last statement of a group that waited too long for a lock.
MAX_BLOCKED = 1_000  # Groups. The one that was blocked first is dropped.


class Line(RequestQueue):
    """The requests of a group that wait for their turn."""

    in_flight = 0  # Statements of the requests that have theirs.


class CountingConnections:
    def __init__(self) -> None:
        # PgBouncer may give the server to another client between two transactions that were sent together.
        options = settings.DATABASES[DEFAULT_DB_ALIAS]["OPTIONS"]
        self._is_pooled = options.get("prepare_threshold", 0) is None
        connection_class = PostgresqlConnection if self._is_pooled else TransactionPipeline
        self._shared = SharedConnection(DEFAULT_DB_ALIAS, connection_class)
        self._for_blocked = SharedConnection(DEFAULT_DB_ALIAS)
        self._blocked: dict[Hashable, float] = {}  # The loop's time at which a group leaves.
        self._lines: dict[Hashable, Line] = {}  # Of the groups with statements in flight.

    def fetch_rows(self, group: Hashable, statement: Statement, values: list[Value]) -> Rows:
        """Run a statement. Raises Django's database errors."""
        line = self._lines.setdefault(group, Line())
        if line.in_flight < MAX_IN_FLIGHT:
            line.in_flight += 1
        else:
            line.wait()
        try:
            is_blocked = self._blocked.get(group, 0.0) > asyncio.get_running_loop().time()
            shared = self._for_blocked if is_blocked else self._shared
            return shared.fetch_rows(statement, values, isolated=is_blocked or self._is_pooled)
        except OperationalError as error:
            if isinstance(error.__cause__, LockNotAvailable):
                self._block(group, asyncio.get_running_loop().time() + BLOCKED_SECONDS)
                line.fail_all(error)
            raise
        finally:
            if line:
                asyncio.get_running_loop().call_soon(line.popleft().switch)
            else:
                line.in_flight -= 1
                if not line.in_flight:
                    del self._lines[group]

    def _block(self, group: Hashable, until: float) -> None:
        self._blocked.pop(group, None)  # Reinsert as the newest.
        self._blocked[group] = until
        if len(self._blocked) > MAX_BLOCKED:
            del self._blocked[next(iter(self._blocked))]


@cache
def get_counting_connections() -> CountingConnections:
    return CountingConnections()
