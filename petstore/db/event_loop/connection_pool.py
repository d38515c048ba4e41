"""The connection pool, each of whose connections runs one transaction at a time."""

import asyncio
from functools import cache

from django.conf import settings

from petstore.db.event_loop.connection import PostgresqlConnection
from petstore.db.event_loop.connector import CONNECT_THREADS, RECONNECT_DELAY
from petstore.db.event_loop.errors import ConnectionClosedError, ConnectionFailedError
from petstore.db.event_loop.greenlets import TICK, RequestQueue, RequestTask
from petstore.db.monitor import is_unavailable

MAX_CONCURRENT_OPENS = CONNECT_THREADS - 1  # One thread remains free for reads.


class ConnectionPool:
    """Lends connections to transactions. A statement outside `atomic` is a transaction of its own.

    A connection is idle, lent to one request, or closed. If the server rejects further connections, the
    open ones serve all requests.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._open: list[PostgresqlConnection] = []  # May contain closed ones.
        self._idle: list[PostgresqlConnection] = []  # The most recently used one is last.
        self._opening: set[asyncio.Task[None] | None] = set()
        self._failed_at = float("-inf")
        self._retry_handle: asyncio.TimerHandle | None = None
        self._waiting = RequestQueue()

    def acquire(self) -> PostgresqlConnection:
        """Lend a connection, or wait in the queue for one.

        Raises OperationalError after QUEUE_TIMEOUT, and ConnectionFailedError if none can be opened.
        """
        while True:
            connection = self._pop_idle()
            if connection is None:
                asyncio.get_running_loop().call_soon(self._serve_waiting)
                connection = self._waiting.wait()
            if connection.is_usable:
                return connection
            connection.close()

    def release(self, connection: PostgresqlConnection) -> None:
        if connection.error is not None and not isinstance(connection.error, ConnectionClosedError):
            for idle_connection in self._idle:  # The server is unresponsive or has become a standby.
                idle_connection.close()
        elif not connection.is_idle:
            connection.close()
        self._idle.append(connection)
        self._serve_waiting()

    def _pop_idle(self) -> PostgresqlConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    def _lend(self, task: RequestTask, connection: PostgresqlConnection) -> None:
        if task.is_active:
            task.switch(connection)
        else:  # It was cancelled.
            self.release(connection)

    def _serve_waiting(self) -> None:
        """Lend idle connections to waiting requests, open more connections, or fail the requests."""
        loop = asyncio.get_running_loop()
        while self._waiting and (connection := self._pop_idle()) is not None:
            loop.call_soon(self._lend, self._waiting.popleft(), connection)
        if not self._waiting:
            return
        pause_ends = self._failed_at + RECONNECT_DELAY
        if loop.time() < pause_ends or is_unavailable(self._alias):
            if not self._can_serve():
                error = ConnectionFailedError("The server is unavailable, or connecting has just failed.")
                self._waiting.fail_all(error)
            elif self._retry_handle is None:
                self._retry_handle = loop.call_at(max(pause_ends, loop.time() + TICK), self._retry)
            return
        self._open = [connection for connection in self._open if connection.error is None]
        needed = min(len(self._waiting), MAX_CONCURRENT_OPENS) - len(self._opening)
        capacity = settings.WRITE_CONNECTIONS - len(self._open) - len(self._opening)
        for _ in range(min(needed, capacity)):
            task = loop.create_task(self._open_connection())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)  # Also if it is cancelled.

    def _retry(self) -> None:
        self._retry_handle = None
        self._serve_waiting()

    async def _open_connection(self) -> None:
        try:
            connection = await PostgresqlConnection.open(self._alias, shared=False)
        except ConnectionFailedError as error:
            self._failed_at = asyncio.get_running_loop().time()
            self._opening.discard(asyncio.current_task())
            if not self._can_serve():
                self._waiting.fail_all(error)
            self._serve_waiting()
        else:
            self._opening.discard(asyncio.current_task())
            self._open.append(connection)
            self.release(connection)

    def _can_serve(self) -> bool:
        return bool(self._opening) or any(connection.error is None for connection in self._open)


@cache
def get_write_pool(alias: str) -> ConnectionPool:
    return ConnectionPool(alias)
