"""PostgreSQL for the event loop: libpq's pipeline mode, through psycopg's wrapper of libpq.

What leaves together is one batch with one Sync, hence one transaction: only reads may share a connection. A
statement that fails takes those after it in its batch along; they are asked again, alone. Nobody hears of a
result before the Sync, and so waits for all of the batch, and shares its time limit. A Sync for each read
would cost a tenth of a request.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any, Self

import psycopg
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors, pq
from psycopg.adapt import Transformer
from psycopg.types.datetime import TimestamptzLoader

from petstore.db.monitor import DatabaseUnavailableError, is_unavailable, patience, servers
from petstore.event_loop.connection import Connection, LostError, PipeError, Waiter
from petstore.event_loop.libpq import Parameters, Statement, Types, Value, encoded, results
from petstore.event_loop.opening import connect_in_thread, opening_limit
from petstore.event_loop.shared_connection import Pipe

Rows = list[tuple[Any, ...]]

ATTEMPTS = 3
REPEAT_WITHIN = 1.0  # Seconds from the first read on: a connection that was cut shows it at once.
LAST_WORDS = {b"FATAL", b"PANIC"}  # The severities after which PostgreSQL closes the connection.
DONE = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}
NOT_PREPARED = b"26000"  # PostgreSQL's code, invalid_sql_statement_name.
PREPARED_TWICE = b"42P05"  # PostgreSQL's code, duplicate_prepared_statement.
NOT_SUPPORTED = b"0A000"  # PostgreSQL's code; it comes as well when ...
PLAN_CHANGED = b"RevalidateCachedQuery"  # ... this function finds that a table's columns have changed.


class NotDoneError(PipeError):
    """Nothing was done: the server has prepared no such statement, or another's failed before it."""


class Preparation:
    """Once that a statement was prepared on a connection; those who come later stand behind it."""


class PostgresqlConnection(Connection):
    """One connection in pipeline mode, with Django's settings for the alias."""

    def __init__(self, wrapper: BaseDatabaseWrapper, *, shared: bool) -> None:
        """Take over a connection that is open. `shared`: many read on it; else one has it to itself."""
        super().__init__(patience(wrapper.alias), gathers=shared)
        self._alias = wrapper.alias
        self._wrapper = wrapper
        self._connection: Any = wrapper.connection
        # Django's own loader knows all zones, and is written in Python: it takes 25 times as long.
        self._connection.adapters.register_loader("timestamptz", TimestamptzLoader)
        self._libpq = self._connection.pgconn
        # Behind a pooler that hands out transactions, nothing stays prepared.
        self._prepares = wrapper.settings_dict["OPTIONS"].get("prepare_threshold") is not None
        self._prepared: dict[bytes, Preparation] = {}  # By the statement's name.
        self._transformers: dict[bytes, Any] = {}  # What turns results into Python's types.
        self._put_count = 0  # Questions since the last Sync.
        self._sizes: deque[int] = deque()  # Of the batches under way.
        self._results: list[Any] = []  # Of the first of them, until its Sync.
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._socket = self._libpq.socket
        self._loop.add_reader(self._socket, self._look)
        self._begin()

    @classmethod
    async def open(cls, alias: str, *, shared: bool) -> Self:
        """Return a new connection. Raises any exception."""
        wrapper = await connect_in_thread(alias)
        try:
            return cls(wrapper, shared=shared)
        except BaseException:
            wrapper.connection.pgconn.finish()
            raise

    @property
    def is_of_use(self) -> bool:
        """Whether it is open, and its server was not away since: another may be the primary now."""
        server = servers.get(self._alias)
        return self.error is None and (server is None or self._connection.generation == server.generation)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits, and the server says that no transaction is open."""
        return not self._row and self._libpq.transaction_status == pq.TransactionStatus.IDLE

    @property
    def owes_answers(self) -> bool:
        return self._sent > 0

    def rows(self, statement: Statement, values: Sequence[Value], *, alone: bool = False) -> Rows:
        """Return a statement's rows. Raises PipeErrors, and what Django raises for a query.

        `alone`: whatever fails for others, in its batch or in preparing the statement, is not its failure.
        """
        result = self.ask(self._put_alone, statement, values) if alone else self.result(statement, values)
        self.check(statement, result)
        return self.loaded(statement, result)

    def loaded(self, statement: Statement, result: Any) -> Rows:
        """Return the rows of a statement's result, in Python's types."""
        transformer = self._transformers.get(statement.name)
        if transformer is None:
            transformer = self._transformers[statement.name] = Transformer(self._connection)
            transformer.set_pgresult(result)
        else:
            transformer.set_pgresult(result, set_loaders=False)
        return transformer.load_rows(0, result.ntuples, tuple)

    def result(self, statement: Statement, values: Sequence[Value]) -> Any:
        """Return libpq's result, whatever it says. Raises LostError, or PipeError if none came in time."""
        types, parameters = encoded(values)
        preparation = self._prepared.get(statement.name)
        if self._prepares and preparation is None:
            # Whoever comes next stands behind this one.
            preparation = self._prepared[statement.name] = Preparation()
            result = self.ask(self._prepare, statement, types)
            if result.status != pq.ExecStatus.COMMAND_OK:
                self.forget(statement, preparation)
                return result
        result = self.ask(self._put, statement, types, parameters)
        if result.status not in DONE and result.error_field(pq.DiagnosticField.SQLSTATE) == NOT_PREPARED:
            self.forget(statement, preparation)
        return result

    def send(self, waiter: Waiter, statement: Statement, values: Sequence[Value]) -> None:
        """Put a statement that is prepared, and go on; it leaves with the next that somebody waits for."""
        types, parameters = encoded(values)
        self._enter(waiter, self._put, statement, types, parameters)

    def unprepared(self, sql: bytes) -> Any:
        """Return libpq's result of a statement without parameters, whatever it says; it is not kept."""
        return self.ask(self._put_unprepared, sql, [], [])

    def knows(self, statement: Statement) -> bool:
        """Tell whether a statement may be sent at once."""
        return not self._prepares or statement.name in self._prepared

    def forget(self, statement: Statement, preparation: Preparation | None = None) -> None:
        """Have the next one prepare it, unless somebody has done so since that preparation."""
        if preparation is None or self._prepared.get(statement.name) is preparation:
            self._prepared.pop(statement.name, None)

    def check(self, statement: Statement, result: Any) -> None:
        """Raise what a result says that is no success, and close what can't be used again."""
        if result.status in DONE:
            return
        if result.status == pq.ExecStatus.PIPELINE_ABORTED:
            raise NotDoneError("Another's failure took the statement along.")
        code = result.error_field(pq.DiagnosticField.SQLSTATE)
        if code == NOT_PREPARED:
            raise NotDoneError("The server has not prepared the statement, or no more.")
        if code == PREPARED_TWICE:
            self.close()  # What it has prepared is not what is known of it.
            raise NotDoneError("The server has prepared another statement by this name.")
        if code == NOT_SUPPORTED and (
            result.error_field(pq.DiagnosticField.SOURCE_FUNCTION) == PLAN_CHANGED
        ):
            self.close()  # All that it has prepared is of yesterday.
            raise NotDoneError("The tables have changed since the statement was prepared.")
        failure = errors.error_from_result(result)
        if isinstance(failure, errors.ReadOnlySqlTransaction):
            self.lose(PipeError("The server takes no writes: it has become a standby."))
        with self._wrapper.wrap_database_errors:
            raise failure

    def _prepare(self, statement: Statement, types: Types) -> None:
        self._libpq.send_prepare(statement.name, statement.sql, types)
        self._put_count += 1

    def _put(self, statement: Statement, types: Types, parameters: Parameters) -> None:
        if self._prepares:
            self._libpq.send_query_prepared(statement.name, parameters)
            self._put_count += 1
        else:
            self._put_unprepared(statement.sql, types, parameters)

    def _put_unprepared(self, sql: bytes, types: Types, parameters: Parameters) -> None:
        self._libpq.send_query_params(sql, parameters, types)
        self._put_count += 1

    def _put_alone(self, statement: Statement, values: Sequence[Value]) -> None:
        types, parameters = encoded(values)
        self._end_batch()
        self._put_unprepared(statement.sql, types, parameters)
        self._end_batch()

    def _end_batch(self) -> None:
        if self._put_count:
            self._sizes.append(self._put_count)
            self._put_count = 0
            self._libpq.pipeline_sync()

    def _disconnect(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._libpq.finish()

    def _is_away(self) -> bool:
        return is_unavailable(self._alias)

    def _flush(self) -> None:
        self._end_batch()
        if self._libpq.flush():
            self._loop.call_soon(self._write_on)

    def _write_on(self) -> None:
        """Send what the socket has not taken yet, when it takes more."""
        if self.error is not None:
            return
        try:
            if self._libpq.flush():
                self._loop.add_writer(self._socket, self._write_on)
            else:
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self.lose(LostError(str(error)))

    def _look(self) -> None:
        """Give each result to whoever has asked for it.

        The tick calls it as well: libuv hears of a connection that was cut only once, perhaps while its
        last word is still to be read.
        """
        if self.error is not None:
            return
        try:
            self._libpq.consume_input()
            for result in results(self._libpq):
                self._take(result)
        except Exception as error:  # noqa: BLE001  The server has gone, or says what nobody asked for.
            self.lose(LostError(str(error)))
        if self.error is None and self._libpq.status == pq.ConnStatus.BAD:
            self.lose(LostError("closed by the server"))

    def _take(self, result: Any) -> None:
        """Keep a result for its Sync. Raises LostError where it is the server's last word."""
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            self._deliver()
        elif result.status == pq.ExecStatus.FATAL_ERROR and (
            result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) in LAST_WORDS
        ):
            raise LostError(str(errors.error_from_result(result)))
        else:
            self._results.append(result)

    def _deliver(self) -> None:
        """Give the results of a batch to those who have asked; an error of the commit is everybody's."""
        found, self._results = self._results, []
        size = self._sizes.popleft()
        if len(found) > size:
            found = [found[size]] * size
        if len(found) != size:
            raise LostError("The server gave fewer results than were asked for.")
        for result in found:
            self._answer(result)

    def _end(self, error: PipeError) -> None:
        """Tell everybody that it is lost, but who has heard that what he did is committed."""
        if self._results and self._results[-1].command_status == b"COMMIT":
            for result in self._results:
                self._answer(result)
        super()._end(error)


def as_django(alias: str, error: PipeError) -> OperationalError:
    """Return what Django raises while the database can't be reached."""
    return (DatabaseUnavailableError if is_unavailable(alias) else OperationalError)(str(error))


class Reader(Pipe[PostgresqlConnection]):
    """The connection that all reads of a database share; what it loses is asked again on the next one."""

    def __init__(self, alias: str) -> None:
        super().__init__(opening_limit(alias))
        self._alias = alias

    def rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        """Return a statement's rows. Raises what Django raises for a query."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for attempt in count(1):
            try:
                return self.connected().rows(statement, values, alone=attempt > 1)
            except PipeError as error:
                lost = isinstance(error, LostError) and loop.time() - began <= REPEAT_WITHIN
                repeats = lost or isinstance(error, NotDoneError)
                if attempt == ATTEMPTS or not repeats:
                    raise as_django(self._alias, error) from error
        raise AssertionError  # The last attempt raises.

    def _is_away(self) -> bool:
        return is_unavailable(self._alias)

    async def _open(self) -> PostgresqlConnection:
        return await PostgresqlConnection.open(self._alias, shared=True)


@cache
def reader(alias: str) -> Reader:
    return Reader(alias)
