"""PostgreSQL connections of the event loop, which use libpq's pipeline mode through psycopg's wrapper.

Requests that are sent together form one batch with one Sync, and therefore one transaction. For this
reason, only reads may share a connection, unless each statement has its own BEGIN and COMMIT
(transaction_pipeline.py). A failed statement aborts the later ones of its batch, which are retried in
batches of their own. Results are delivered at the Sync, so all requests of a batch share a timeout.

A closed connection is never reopened, but replaced by a new object. Requests on a closed connection fail,
so a reply can only reach the request that it belongs to. On a shared connection, all requests of one loop
iteration are sent in one write.

Timeouts count ticks of the loop instead of reading the clock, so that a process that was suspended does not
mistake its own pause for an unresponsive server.

Two rules keep uvloop from crashing. Only the loop itself adds or removes readers and writers, and no
request is resumed inside a timer's callback. While a request runs, greenlet has moved the loop's part of
the C stack away, where libuv keeps its lists of sockets and timers.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors, pq
from psycopg.adapt import Transformer
from psycopg.types.datetime import TimestamptzLoader

from petstore.db.event_loop.connector import connect_in_thread
from petstore.db.event_loop.errors import ConnectionClosedError, ConnectionFailedError, NotExecutedError
from petstore.db.event_loop.greenlets import TICK, current_task, pause, timeout_in_ticks
from petstore.db.event_loop.libpq import Parameters, Statement, Types, Value, encode_values, read_results
from petstore.db.monitor import get_response_timeout, is_unavailable, servers

Rows = list[tuple[Any, ...]]

MAX_ATTEMPTS = 5  # To execute a statement, if it was not executed before.
TIMED_OUT = "The server did not respond in time."
FATAL_SEVERITIES = {b"FATAL", b"PANIC"}  # After these, PostgreSQL closes the connection.
SUCCESS = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}
# SQLSTATE codes
LOST_STATEMENT = {b"26000", b"42P05"}  # A prepared statement is unknown, or one of its name exists.
FEATURE_NOT_SUPPORTED = b"0A000"
PLAN_CHANGED = b"RevalidateCachedQuery"  # This function reports 0A000 after a table was altered.


class Receiver(Protocol):
    """The receiver of a reply, usually a RequestTask."""

    def switch(self, result: Any) -> Any: ...

    def throw(self, error: ConnectionFailedError) -> Any: ...


class PostgresqlConnection:
    """A connection in pipeline mode, with Django's settings for its alias.

    It sends requests in order and matches replies to them by that order.
    """

    def __init__(self, wrapper: BaseDatabaseWrapper, *, shared: bool) -> None:
        """Take over an open connection. If it is `shared`, many requests use it concurrently."""
        self.error: ConnectionFailedError | None = None  # The reason for closing, once closed.
        self._batched = shared  # Whether to send only once per loop iteration.
        self._flush_is_due = False
        self._timeout_ticks = timeout_in_ticks(get_response_timeout(wrapper.alias))
        self._now = 0  # In ticks.
        # Each receiver, or None (also after its timeout), with the tick at which it was queued.
        self._queue: deque[tuple[Receiver | None, int]] = deque()
        self._sent_count = 0  # The number of requests in the queue that have been sent.
        self._head_since = 0  # The tick since which the head of the queue has been waiting.
        self._loop = asyncio.get_running_loop()
        self._alias = wrapper.alias
        self._wrapper = wrapper
        self._connection: Any = wrapper.connection
        # Django's loader supports all time zones but is slower, because it is written in Python.
        self._connection.adapters.register_loader("timestamptz", TimestamptzLoader)
        self._libpq = self._connection.pgconn
        # Transaction poolers don't keep statements prepared.
        self._prepares = wrapper.settings_dict["OPTIONS"].get("prepare_threshold") is not None
        self._prepared: set[bytes] = set()  # Names of statements.
        self._transformers: dict[bytes, Any] = {}  # Convert results to Python types. By statement name.
        self._put_count = 0  # The number of messages since the last Sync.
        self._batch_sizes: deque[int] = deque()  # The sizes of the batches in transit.
        self._results: list[Any] = []  # The results of the first batch, until its Sync.
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._socket = self._libpq.socket
        self._loop.add_reader(self._socket, self._read)
        self._next_tick = self._loop.call_later(TICK, self._tick)

    @classmethod
    async def open(cls, alias: str, *, shared: bool) -> Self:
        """Connect. Raises ConnectionFailedError."""
        wrapper = await connect_in_thread(alias)
        try:
            return cls(wrapper, shared=shared)
        except BaseException:
            wrapper.connection.pgconn.finish()
            raise

    @property
    def is_usable(self) -> bool:
        # After an outage, another server may be the primary.
        server = servers.get(self._alias)
        return self.error is None and (server is None or self._connection.generation == server.generation)

    @property
    def is_idle(self) -> bool:
        return not self._queue and self._libpq.transaction_status == pq.TransactionStatus.IDLE

    @property
    def has_pending_results(self) -> bool:
        return self._sent_count > 0

    def fetch_rows(self, statement: Statement, values: Sequence[Value], *, isolated: bool = False) -> Rows:
        """Run a statement. Raises ConnectionFailedError and Django's database errors.

        An `isolated` statement is not prepared and has its own batch, so other failures can't affect it.
        """
        if isolated:
            result = self.round_trip(self._put_isolated, statement, values)
        else:
            result = self.execute(statement, values)
        self.check_result(statement, result)
        return self.load_rows(statement, result)

    def load_rows(self, statement: Statement, result: Any) -> Rows:
        transformer = self._transformers.get(statement.name)
        if transformer is None:
            transformer = Transformer(self._connection)
            transformer.set_pgresult(result)
            if statement.name:
                self._transformers[statement.name] = transformer
        else:
            transformer.set_pgresult(result, set_loaders=False)
        return transformer.load_rows(0, result.ntuples, tuple)

    def execute(self, statement: Statement, values: Sequence[Value]) -> Any:
        """Run a statement and return libpq's result, even if it failed. Raises ConnectionFailedError.

        A statement without a name is not prepared.
        """
        types, parameters = encode_values(values)
        if self._prepares and statement.name and statement.name not in self._prepared:
            # Recorded before the reply arrives, because later requests are queued behind this one.
            self._prepared.add(statement.name)
            result = self.round_trip(self._prepare, statement, types)
            if result.status != pq.ExecStatus.COMMAND_OK:
                self._prepared.discard(statement.name)
                return result
        return self.round_trip(self._put, statement, types, parameters)

    def send(self, sql: bytes) -> None:
        """Buffer a statement whose result is ignored. It is sent with the next round trip."""
        self._enqueue(None, self._put_unprepared, sql, [], [])

    @property
    def info(self) -> Any:
        """Psycopg's ConnectionInfo."""
        return self._connection.info

    def check_result(self, statement: Statement, result: Any) -> None:
        """Raise the error of a failed result, and close the connection if it became unusable."""
        if result.status in SUCCESS:
            return
        if result.status == pq.ExecStatus.PIPELINE_ABORTED:
            raise NotExecutedError("An earlier statement of the batch failed.")
        code = result.error_field(pq.DiagnosticField.SQLSTATE)
        if code in LOST_STATEMENT or (
            code == FEATURE_NOT_SUPPORTED
            and result.error_field(pq.DiagnosticField.SOURCE_FUNCTION) == PLAN_CHANGED
        ):
            self.close()  # Its other prepared statements may be stale as well.
            raise NotExecutedError("The statement must be prepared again.")
        failure = errors.error_from_result(result)
        if isinstance(failure, errors.ReadOnlySqlTransaction):
            self.fail(ConnectionFailedError("The server has become a standby, which accepts no writes."))
        with self._wrapper.wrap_database_errors:
            raise failure

    def round_trip(self, put: Callable[..., object], *arguments: Any) -> Any:
        """Buffer a request by calling `put`, and wait for its reply.

        Only requests on the loop may call this. Raises ConnectionFailedError.
        """
        self._enqueue(current_task(), put, *arguments)
        if self._batched:
            self._send_soon()
        else:
            self._send()
        return pause()

    def fail(self, error: ConnectionFailedError) -> None:
        """Accept no more requests. The loop then disconnects and fails the pending ones."""
        if self.error is None:
            self.error = error
            self._next_tick.cancel()
            self._loop.call_soon(self._shut_down, error)

    def close(self) -> None:
        self.fail(ConnectionClosedError("The connection was closed."))

    # --- Messages

    def _prepare(self, statement: Statement, types: Types) -> None:
        self._libpq.send_prepare(statement.name, statement.sql, types)
        self._put_count += 1

    def _put(self, statement: Statement, types: Types, parameters: Parameters) -> None:
        if self._prepares and statement.name:
            self._libpq.send_query_prepared(statement.name, parameters)
            self._put_count += 1
        else:
            self._put_unprepared(statement.sql, types, parameters)

    def _put_unprepared(self, sql: bytes, types: Types, parameters: Parameters) -> None:
        self._libpq.send_query_params(sql, parameters, types)
        self._put_count += 1

    def _put_isolated(self, statement: Statement, values: Sequence[Value]) -> None:
        types, parameters = encode_values(values)
        self._end_batch()
        self._put_unprepared(statement.sql, types, parameters)
        self._end_batch()

    def _end_batch(self) -> None:
        if self._put_count:
            self._batch_sizes.append(self._put_count)
            self._put_count = 0
            self._libpq.pipeline_sync()

    def _disconnect(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._libpq.finish()

    def _flush(self) -> None:
        self._end_batch()
        if self._libpq.flush():
            self._loop.call_soon(self._continue_flush)

    def _continue_flush(self) -> None:
        if self.error is not None:
            return
        try:
            if self._libpq.flush():
                self._loop.add_writer(self._socket, self._continue_flush)
            else:
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self.fail(ConnectionClosedError(str(error)))

    def _read(self) -> None:
        # Ticks also call this, because libuv reports a broken connection only once, possibly before
        # the last message.
        if self.error is not None:
            return
        try:
            self._libpq.consume_input()
            for result in read_results(self._libpq):
                self._receive(result)
        except Exception as error:  # noqa: BLE001  The server disconnected or sent unexpected messages.
            self.fail(ConnectionClosedError(str(error)))
        if self.error is None and self._libpq.status == pq.ConnStatus.BAD:
            self.fail(ConnectionClosedError("The server closed the connection."))

    def _receive(self, result: Any) -> None:
        """Collect a result until the Sync of its batch. Raises ConnectionClosedError for a fatal error."""
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            self._deliver_batch()
        elif result.status == pq.ExecStatus.FATAL_ERROR and (
            result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) in FATAL_SEVERITIES
        ):
            raise ConnectionClosedError(str(errors.error_from_result(result)))
        else:
            self._results.append(result)

    def _deliver_batch(self) -> None:
        """Deliver the results of a batch. If its commit failed, all requests receive that error."""
        results, self._results = self._results, []
        size = self._batch_sizes.popleft()
        if len(results) > size:
            results = [results[size]] * size
        if len(results) != size:
            raise ConnectionClosedError("The server sent too few results.")
        self._deliver(results)

    def _deliver(self, results: list[Any]) -> None:
        for result in results:
            self._resolve_next(result)

    # --- The queue of pending replies

    def _enqueue(self, receiver: Receiver | None, put: Callable[..., object], *arguments: Any) -> None:
        if self.error is not None:
            raise ConnectionClosedError(*self.error.args)
        try:
            put(*arguments)
        except Exception as error:
            self.fail(ConnectionClosedError(str(error)))
            raise ConnectionClosedError(str(error)) from error
        self._queue.append((receiver, self._now))

    def _send_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._flush_is_due = False
        if self.error is not None:
            return
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001  The connection is unusable after any failure.
            self.fail(ConnectionClosedError(str(error)))
        if not self._sent_count:
            self._head_since = self._now
        self._sent_count = len(self._queue)

    def _resolve_next(self, reply: Any) -> None:
        receiver, _ = self._queue.popleft()
        self._sent_count -= 1
        self._head_since = self._now
        if receiver is not None:
            receiver.switch(reply)

    def _tick(self) -> None:
        self._now += 1
        is_late = self._now - self._head_since >= self._timeout_ticks
        if self._sent_count and (is_late or is_unavailable(self._alias)):
            self.fail(ConnectionFailedError(TIMED_OUT))
            return
        self._next_tick = self._loop.call_later(TICK, self._tick)
        if self._sent_count:
            self._loop.call_soon(self._expire)
            self._loop.call_soon(self._read)

    def _expire(self) -> None:
        """Fail requests whose replies are late, but keep their places for replies that still arrive."""
        for index in range(self._sent_count if self.error is None else 0):
            receiver, queued_at = self._queue[index]
            if self._now - queued_at < self._timeout_ticks:
                break
            if receiver is not None:
                self._queue[index] = None, queued_at
                receiver.throw(ConnectionFailedError(TIMED_OUT))

    def _shut_down(self, error: ConnectionFailedError) -> None:
        """Disconnect, and fail all pending requests, except those whose COMMIT was confirmed."""
        statuses = [result.command_status for result in self._results]
        while statuses and statuses[-1] != b"COMMIT":
            statuses.pop()
        self._deliver(self._results[: len(statuses)])
        try:
            self._disconnect()
        finally:
            while self._queue:
                receiver, _ = self._queue.popleft()
                if receiver is not None:
                    receiver.throw(type(error)(*error.args))
