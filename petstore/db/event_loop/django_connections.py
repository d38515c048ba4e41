"""Django's `connections` on the event loop, where each greenlet has its own, as each thread has elsewhere.

`save()`, `atomic`, cursors and the rest of Django's database API therefore work in a request on the loop,
and wait without blocking it. Outside a request, the loop's thread still raises SynchronousOnlyOperation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from django.db import DatabaseError, connections
from django.db.utils import ConnectionHandler
from greenlet import getcurrent

from petstore.db import base
from petstore.db.event_loop.connection import Rows
from petstore.db.event_loop.counting import get_counting_connections
from petstore.db.event_loop.dbapi import LoopConnection, LoopCursor
from petstore.db.event_loop.greenlets import PooledGreenlet, current_connections, is_on_loop
from petstore.db.event_loop.libpq import compile_named_parameters

# Django's methods that reject calls in the thread of an event loop, because they would block it.
BLOCKING = (
    "close", "commit", "rollback", "cursor", "savepoint", "savepoint_commit", "savepoint_rollback",
    "clean_savepoints",
)  # fmt: skip


class LoopDatabaseWrapper(base.DatabaseWrapper):
    """The connection of one greenlet. What it connects to is lent to each transaction: see dbapi.py."""

    queries_logged = False  # With DEBUG, Django's log of queries would need psycopg's cursors.

    def ensure_connection(self) -> None:
        if self.connection is None:
            if self.in_atomic_block:
                raise DatabaseError("The connection was closed in an atomic block.")
            self.connect()

    def connect(self) -> None:
        self.in_atomic_block = self.needs_rollback = self.closed_in_transaction = False
        self.savepoint_ids, self.atomic_blocks, self.run_on_commit = [], [], []
        self.connection = LoopConnection(self.alias)
        self.autocommit = True

    def create_cursor(self, name: str | None = None) -> LoopCursor:
        return LoopCursor(self.connection)

    def chunked_cursor(self) -> Any:
        return self.cursor()

    def fetch_counting(self, group: Hashable, sql: str, parameters: Mapping[str, Any]) -> Rows:
        """Run a statement of `execute_counting`."""
        statement, names = compile_named_parameters(sql)
        values = [parameters[name] for name in names]
        return get_counting_connections().fetch_rows(group, statement, values)

    def on_commit(self, func: Callable[[], object], robust: bool = False) -> None:
        """Register a function whose exceptions are logged, since the response must not deny the commit."""
        super().on_commit(func, robust=True)

    def validate_thread_sharing(self) -> None:
        if not is_on_loop() or current_connections().get(self.alias) is not self:
            raise DatabaseError(f"This connection to {self.alias!r} belongs to another request.")

    def close_if_unusable_or_obsolete(self) -> None:
        """Do nothing, because the pool checks its connections."""

    def end_request(self) -> bool:
        """Close what the request has left open, without waiting. Returns whether there was nothing."""
        is_idle = self.connection is None or (self.connection.is_idle and self.autocommit)
        if is_idle and not self.in_atomic_block and not self.execute_wrappers:
            return True
        if self.connection is not None:
            self.connection.close()
        return False


for name in BLOCKING:
    setattr(LoopDatabaseWrapper, name, getattr(base.DatabaseWrapper, name).__wrapped__)


class LoopConnectionHandler(ConnectionHandler):
    def __getitem__(self, alias: str) -> Any:
        runner: Any = getcurrent()
        if type(runner) is not PooledGreenlet:
            return super().__getitem__(alias)
        wrapper = runner.connections.get(alias)
        if wrapper is None:
            wrapper = runner.connections[alias] = LoopDatabaseWrapper(self.settings[alias], alias)
        return wrapper

    def all(self, initialized_only: bool = False) -> Any:
        return list(current_connections().values()) if is_on_loop() else super().all(initialized_only)


def install() -> None:
    """Make `django.db.connections` those of the current request, for the whole process."""
    connections.__class__ = LoopConnectionHandler
