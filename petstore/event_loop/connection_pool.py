"""The connection pool for writes, each of whose connections runs one transaction at a time."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import count
from typing import Any

from django.conf import settings
from django.db import OperationalError

from petstore.db.monitor import is_unavailable
from petstore.event_loop.connection import ConnectionClosedError, ConnectionFailedError, with_timeout
from petstore.event_loop.connector import CONNECT_THREADS, get_connect_timeout
from petstore.event_loop.greenlets import QUEUED_TOO_LONG, TICK, LoopTimer, RequestTask, current_task, pause
from petstore.event_loop.libpq import Statement, Value
from petstore.event_loop.pg_connection import (
    MAX_ATTEMPTS,
    SUCCESS,
    NotExecutedError,
    PostgresqlConnection,
    Rows,
    to_django_error,
)
from petstore.event_loop.shared_connection import RECONNECT_DELAY

MAX_CONCURRENT_OPENS = CONNECT_THREADS - 1  # One thread remains free for reads.

BEGIN = Statement(b"begin", b"BEGIN")
COMMIT = Statement(b"commit", b"COMMIT")
ROLLED_BACK = "The transaction was rolled back."


class Transaction:
    """The statements from BEGIN to COMMIT or ROLLBACK.

    A statement that waits for its result takes a round trip. One that does not wait is sent together with
    the next one that waits, or at the latest with COMMIT, and the transaction itself receives its result.
    Methods raise ConnectionFailedError and Django's database errors.
    """

    def __init__(self, connection: PostgresqlConnection) -> None:
        self._connection = connection
        self.must_roll_back = False  # Whether an exception left a nested `atomic`.
        self._pending: deque[Statement] = deque()  # Statements sent without waiting for their results.
        self._failure: tuple[Statement, Any] | None = None  # The first of them that failed.
        self.send(BEGIN)

    def fetch_rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        return self._connection.load_rows(statement, self._execute(statement, values))

    def send(self, statement: Statement, values: Sequence[Value] = ()) -> None:
        """Send without waiting if the statement is prepared. The next one that waits raises its error."""
        if self._connection.is_prepared(statement):
            self._connection.send(self, statement, values)
            self._pending.append(statement)
        else:
            self._execute(statement, values)

    def switch(self, result: Any) -> None:
        statement = self._pending.popleft()
        if result.status not in SUCCESS and self._failure is None:
            self._failure = statement, result

    def throw(self, error: ConnectionFailedError) -> None:
        """Do nothing, because the next statement raises the error."""

    def commit(self) -> None:
        """Commit, or raise OperationalError if the transaction was rolled back."""
        if self.must_roll_back:
            raise OperationalError(ROLLED_BACK)
        # For a failed transaction, COMMIT succeeds with the command tag ROLLBACK.
        if self._execute(COMMIT).command_status != b"COMMIT":
            raise OperationalError(ROLLED_BACK)

    def roll_back(self) -> None:
        """Roll back, or close the connection if that fails.

        The first ROLLBACK is aborted if a pending statement fails.
        """
        with suppress(ConnectionFailedError):
            if self._connection.has_pending_results:
                raise ConnectionFailedError("The last statement may still be running.")
            for _ in range(2):
                if self._connection.execute_unprepared(b"ROLLBACK").status in SUCCESS:
                    return
        self._connection.close()

    def _execute(self, statement: Statement, values: Sequence[Value] = ()) -> Any:
        result = self._connection.execute(statement, values)
        if self._failure is not None:
            (statement, result), self._failure = self._failure, None
        try:
            self._connection.check_result(statement, result)
        except NotExecutedError as error:
            self._connection.forget_preparation(statement)
            raise ConnectionFailedError(ROLLED_BACK) from error
        return result


class ConnectionPool:
    """Lends connections to transactions. A write outside `atomic` is a separate transaction.

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
        self._waiting: deque[RequestTask] = deque()

    def fetch_rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        """Run a statement. Raises Django's database errors."""
        transaction: Transaction | None = current_task().transaction
        for attempt in count(1):
            try:
                if transaction is not None:
                    return transaction.fetch_rows(statement, values)
                with self._borrow() as connection:
                    return connection.fetch_rows(statement, values)
            except ConnectionFailedError as error:
                may_retry = transaction is None and isinstance(error, NotExecutedError)
                if attempt == MAX_ATTEMPTS or not may_retry:
                    raise to_django_error(self._alias, error) from error
        raise AssertionError  # The last attempt raises.

    def send(self, statement: Statement, values: Sequence[Value]) -> None:
        """Send a statement of the open transaction, usually without waiting for its result."""
        transaction: Transaction | None = current_task().transaction
        assert transaction is not None
        try:
            transaction.send(statement, values)
        except ConnectionFailedError as error:
            raise to_django_error(self._alias, error) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction, or as part of the open one. Raises Django's database errors."""
        task = current_task()
        if task.transaction is not None:
            try:
                yield
            except BaseException:
                task.transaction.must_roll_back = True
                raise
            return
        try:
            with self._borrow() as connection:
                transaction = task.transaction = Transaction(connection)
                try:
                    yield
                    transaction.commit()
                except BaseException:
                    transaction.roll_back()
                    raise
                finally:
                    task.transaction = None
        except ConnectionFailedError as error:
            raise to_django_error(self._alias, error) from error

    @contextmanager
    def _borrow(self) -> Iterator[PostgresqlConnection]:
        connection = self._acquire()
        try:
            yield connection
        finally:
            self._release(connection)

    def _acquire(self) -> PostgresqlConnection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + settings.QUEUE_TIMEOUT / 1000
        while True:
            connection = self._pop_idle() or self._wait_for_connection(deadline - loop.time())
            if connection.is_usable:
                return connection
            connection.close()

    def _release(self, connection: PostgresqlConnection) -> None:
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
        task = current_task()
        self._waiting.append(task)
        timer = LoopTimer(seconds, partial(self._time_out, task))
        self._serve_waiting()
        try:
            connection: PostgresqlConnection = pause()
        finally:
            timer.cancel()
        return connection

    def _time_out(self, task: RequestTask) -> None:
        if task in self._waiting:
            self._waiting.remove(task)
            task.throw(OperationalError(QUEUED_TOO_LONG))

    def _serve_waiting(self) -> None:
        """Lend idle connections to waiting requests, open more connections, or fail the requests."""
        loop = asyncio.get_running_loop()
        while self._waiting and (connection := self._pop_idle()) is not None:
            loop.call_soon(self._waiting.popleft().switch, connection)
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
            self._release(connection)

    def _can_serve(self) -> bool:
        return bool(self._opening) or any(connection.error is None for connection in self._open)

    def _fail_waiting(self, reason: str) -> None:
        while self._waiting:
            error = ConnectionFailedError(reason)
            asyncio.get_running_loop().call_soon(self._waiting.popleft().throw, error)


@cache
def get_write_pool(alias: str) -> ConnectionPool:
    return ConnectionPool(alias)
