"""The connection pool, each of whose connections runs one transaction at a time."""

import asyncio
from collections import deque
from contextlib import suppress
from functools import cache, partial

from django.conf import settings
from django.db import OperationalError

from petstore.db.monitor import is_unavailable
from petstore.event_loop.connection import PostgresqlConnection
from petstore.event_loop.connector import CONNECT_THREADS, RECONNECT_DELAY, get_connect_timeout
from petstore.event_loop.errors import ConnectionClosedError, ConnectionFailedError
from petstore.event_loop.greenlets import (
    QUEUED_TOO_LONG,
    TICK,
    LoopTimer,
    RequestTask,
    current_task,
    pause,
    with_timeout,
)

MAX_CONCURRENT_OPENS = CONNECT_THREADS - 1  # One thread remains free for reads.


class Waiter:
    """A request that waits for a connection. If it was cancelled, its connection goes back to the pool."""

    __slots__ = ("task",)

    def __init__(self) -> None:
        self.task: RequestTask | None = current_task()

    def throw(self, error: Exception) -> None:
        if self.task is not None:
            self.task.throw(error)


class ConnectionPool:
    """Lends connections to transactions. A statement outside `atomic` is a transaction of its own.

    A connection is idle, lent to one request, or closed. If the server rejects further connections, the
    open ones serve all requests.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._open: list[PostgresqlConnection] = []  # May contain closed ones.
        self._idle: list[PostgresqlConnection] = []  # The most recently used one is last.
        self._opening: set[asyncio.Task[None]] = set()
        self._failed_at = float("-inf")
        self._retry_handle: asyncio.TimerHandle | None = None
        self._waiting: deque[Waiter] = deque()

    def acquire(self) -> PostgresqlConnection:
        """Lend a connection. Raises OperationalError after QUEUE_TIMEOUT, and ConnectionFailedError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + settings.QUEUE_TIMEOUT / 1000
        while True:
            connection = self._pop_idle() or self._wait_for_connection(deadline - loop.time())
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
        if self._waiting:
            self._serve_waiting()

    def _pop_idle(self) -> PostgresqlConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    def _wait_for_connection(self, seconds: float) -> PostgresqlConnection:
        """Queue for a connection.

        Raises OperationalError after the timeout, and ConnectionFailedError if no connection can be opened.
        """
        waiter = Waiter()
        self._waiting.append(waiter)
        timer = LoopTimer(seconds, partial(self._time_out, waiter))
        try:
            self._serve_waiting()
            connection: PostgresqlConnection = pause()
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(waiter)
            raise
        finally:
            timer.cancel()
            waiter.task = None
        return connection

    def _hand_over(self, waiter: Waiter, connection: PostgresqlConnection) -> None:
        if waiter.task is not None:
            waiter.task.switch(connection)
        else:
            self.release(connection)

    def _time_out(self, waiter: Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            waiter.throw(OperationalError(QUEUED_TOO_LONG))

    def _serve_waiting(self) -> None:
        """Lend idle connections to waiting requests, open more connections, or fail the requests."""
        loop = asyncio.get_running_loop()
        while self._waiting and (connection := self._pop_idle()) is not None:
            loop.call_soon(self._hand_over, self._waiting.popleft(), connection)
        pause_ends = self._failed_at + RECONNECT_DELAY
        if loop.time() < pause_ends or is_unavailable(self._alias):
            if not self._can_serve():
                self._fail_waiting("The server is unavailable, or connecting has just failed.")
            elif self._waiting and self._retry_handle is None:
                self._retry_handle = loop.call_at(max(pause_ends, loop.time() + TICK), self._retry)
            return
        self._open = [connection for connection in self._open if connection.error is None]
        needed = min(len(self._waiting), MAX_CONCURRENT_OPENS) - len(self._opening)
        capacity = settings.WRITE_CONNECTIONS - len(self._open) - len(self._opening)
        for _ in range(min(needed, capacity)):
            task = loop.create_task(self._open_connection())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _retry(self) -> None:
        self._retry_handle = None
        self._serve_waiting()

    async def _open_connection(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            connection = await with_timeout(
                get_connect_timeout(self._alias), PostgresqlConnection.open(self._alias, shared=False)
            )
        except Exception as error:  # noqa: BLE001  Connecting may raise exceptions of any type.
            self._opening.discard(task)
            self._failed_at = asyncio.get_running_loop().time()
            if not self._can_serve():
                self._fail_waiting(f"{type(error).__name__}: {error}")
            self._serve_waiting()
        else:
            self._opening.discard(task)
            self._open.append(connection)
            self.release(connection)

    def _can_serve(self) -> bool:
        return bool(self._opening) or any(connection.error is None for connection in self._open)

    def _fail_waiting(self, reason: str) -> None:
        while self._waiting:
            error = ConnectionFailedError(reason)
            asyncio.get_running_loop().call_soon(self._waiting.popleft().throw, error)


@cache
def get_write_pool(alias: str) -> ConnectionPool:
    return ConnectionPool(alias)
