"""Connections that many requests share and that are replaced when they close."""

import asyncio
from collections.abc import Sequence
from functools import cache
from itertools import count

from petstore.db.monitor import is_unavailable
from petstore.event_loop.connection import (
    MAX_ATTEMPTS,
    NotExecutedError,
    PostgresqlConnection,
    Rows,
    to_django_error,
)
from petstore.event_loop.connector import RECONNECT_DELAY, get_connect_timeout
from petstore.event_loop.errors import ConnectionClosedError, ConnectionFailedError
from petstore.event_loop.greenlets import wait, with_timeout
from petstore.event_loop.libpq import Statement, Value

RETRY_WITHIN = 1.0  # Seconds since the first attempt, within which closed connections cause a retry.


class SharedConnection:
    """One connection at a time, opened by the first request that needs it."""

    connection_class = PostgresqlConnection

    def __init__(self, alias: str) -> None:
        """Create it without connecting."""
        self._alias = alias
        self._connection: PostgresqlConnection | None = None
        self._attempt: asyncio.Task[PostgresqlConnection] | None = None
        self._failed_at = float("-inf")

    def get_connection(self) -> PostgresqlConnection:
        """Return the open connection, or wait until one is open. Only requests on the loop may call this.

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
        opening = self.connection_class.open(self._alias, shared=True)
        try:
            connection = await with_timeout(get_connect_timeout(self._alias), opening)
            if connection.error is not None:
                raise connection.error  # It closed right after it opened.
        except Exception as error:
            self._failed_at = asyncio.get_running_loop().time()
            raise ConnectionFailedError(f"{type(error).__name__}: {error}") from error
        finally:
            self._attempt = None
        self._connection = connection
        return connection


class ReadPipeline(SharedConnection):
    """The connection that all reads of a database share. Reads that it fails to execute are retried."""

    def fetch_rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        """Run a statement. Raises Django's database errors."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        for attempt in count(1):
            try:
                return self.get_connection().fetch_rows(statement, values, isolated=attempt > 1)
            except ConnectionFailedError as error:
                closed_early = (
                    isinstance(error, ConnectionClosedError) and loop.time() - started <= RETRY_WITHIN
                )
                may_retry = closed_early or isinstance(error, NotExecutedError)
                if attempt == MAX_ATTEMPTS or not may_retry:
                    raise to_django_error(self._alias, error) from error
        raise AssertionError  # The last attempt raises.


@cache
def get_read_pipeline(alias: str) -> ReadPipeline:
    return ReadPipeline(alias)
