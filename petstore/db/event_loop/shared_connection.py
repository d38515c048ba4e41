"""Connections that many requests share and that are replaced when they close."""

import asyncio
from collections.abc import Sequence
from functools import cache
from itertools import count

from petstore.db.event_loop.connection import MAX_ATTEMPTS, PostgresqlConnection, Rows
from petstore.db.event_loop.connector import RECONNECT_DELAY
from petstore.db.event_loop.errors import (
    ConnectionClosedError,
    ConnectionFailedError,
    NotExecutedError,
    to_django_error,
)
from petstore.db.event_loop.greenlets import wait
from petstore.db.event_loop.libpq import Statement, Value
from petstore.db.monitor import is_unavailable

RETRY_WITHIN = 1.0  # Seconds since the first attempt, within which closed connections cause a retry.


class SharedConnection:
    """One connection at a time, opened by the first request that needs it."""

    def __init__(
        self, alias: str, connection_class: type[PostgresqlConnection] = PostgresqlConnection
    ) -> None:
        """Create it without connecting."""
        self._alias = alias
        self._connection_class = connection_class
        self._connection: PostgresqlConnection | None = None
        self._attempt: asyncio.Task[PostgresqlConnection] | None = None
        self._failed_at = float("-inf")

    def fetch_rows(self, statement: Statement, values: Sequence[Value], *, isolated: bool = False) -> Rows:
        """Run a statement, several times if it was not executed. Raises Django's database errors."""
        started = asyncio.get_running_loop().time()
        for attempt in count(1):
            try:
                connection = self._get_connection()
                return connection.fetch_rows(statement, values, isolated=isolated or attempt > 1)
            except ConnectionFailedError as error:
                if attempt == MAX_ATTEMPTS or not self._may_repeat(error, started):
                    raise to_django_error(self._alias, error) from error
        raise AssertionError  # The last attempt raises.

    def _may_repeat(self, error: ConnectionFailedError, started: float) -> bool:
        return isinstance(error, NotExecutedError)

    def _get_connection(self) -> PostgresqlConnection:
        """Return the open connection, or wait until one is open.

        Raises ConnectionFailedError if the server is unavailable, or if connecting fails or failed less
        than RECONNECT_DELAY ago.
        """
        if self._connection is not None:
            if self._connection.is_usable:
                return self._connection
            self.close()
        if is_unavailable(self._alias):
            raise ConnectionFailedError("The server is unavailable.")
        loop = asyncio.get_running_loop()
        if self._attempt is None:
            if loop.time() - self._failed_at < RECONNECT_DELAY:
                raise ConnectionFailedError("The last attempt to connect has just failed.")
            self._attempt = loop.create_task(self._connect())
        try:
            return wait(asyncio.shield(self._attempt))
        except ConnectionFailedError as error:
            # Each waiting request needs its own exception instance.
            raise ConnectionFailedError(*error.args) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connect(self) -> PostgresqlConnection:
        try:
            connection = await self._connection_class.open(self._alias, shared=True)
        except ConnectionFailedError:
            self._failed_at = asyncio.get_running_loop().time()
            raise
        finally:
            self._attempt = None
        self._connection = connection
        return connection


class ReadPipeline(SharedConnection):
    """The connection that all reads of a database share. Reads are repeated if it closes."""

    def _may_repeat(self, error: ConnectionFailedError, started: float) -> bool:
        is_early = asyncio.get_running_loop().time() - started <= RETRY_WITHIN
        return isinstance(error, NotExecutedError) or (
            isinstance(error, ConnectionClosedError) and is_early
        )


@cache
def get_read_pipeline(alias: str) -> ReadPipeline:
    return ReadPipeline(alias)
