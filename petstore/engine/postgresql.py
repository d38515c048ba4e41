"""PostgreSQL for the event loop: libpq's pipeline mode, through psycopg's wrapper of libpq.

What leaves together is one batch with one Sync, hence one transaction: only reads may share a connection.
A statement that fails takes those after it in its batch along; they are asked again. Nobody hears of a
result before the Sync: only then is a write committed, and may still fail.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors, pq
from psycopg.adapt import Transformer

from petstore.databases.watch import DatabaseAwayError, is_away, servers
from petstore.engine.pipe import LostError, Pipe, PipeError

Rows = list[tuple[Any, ...]]
Types = list[int]
Parameters = list[bytes | None]
Value = int | str | bool | datetime | None

OIDS = {int: 20, str: 25, bool: 16, datetime: 1184, type(None): 0}  # int8, text, bool, timestamptz, any
ENCODE: dict[type, Callable[[Any], bytes | None]] = {
    type(None): lambda value: None,
    int: b"%d".__mod__,
    str: lambda value: str(value).encode(),
    bool: lambda value: b"t" if value else b"f",
    datetime: lambda value: value.isoformat().encode(),
}
SPARE_SECONDS = 1.0  # The server ends a statement itself; this is how much later nobody waits any more.
CONNECTING = 4  # Threads: so many connections are made at once.
NOT_PREPARED = b"26000"  # PostgreSQL's code, invalid_sql_statement_name.
ATTEMPTS = 3
DONE = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}


def kind(value: Value) -> type:
    """Return the type that a value is sent as; Django's choices are texts, its numbers psycopg's own."""
    found = type(value)
    return found if found in OIDS else str if isinstance(value, str) else int


def patience(alias: str) -> float:
    """Return the seconds after which nobody waits for an answer any more."""
    limit: int = settings.DATABASES[alias]["STATEMENT_TIMEOUT"]
    return limit / 1000 + SPARE_SECONDS


class Statement(NamedTuple):
    """SQL with $1, $2 and so on, and the name under which it is prepared."""

    name: bytes
    sql: bytes


class PostgresqlPipe(Pipe):
    """One connection in pipeline mode, with Django's settings for the alias."""

    def __init__(self, alias: str, *, reads: bool) -> None:
        """Take whether it is for reads: many share it then, and what was under way is asked again."""
        super().__init__(patience(alias), shared=reads)
        self._alias = alias
        self._repeats = reads
        self._wrapper: BaseDatabaseWrapper
        self._connection: Any = None
        self._socket = -1
        self._prepares = True
        self._prepared: set[bytes] = set()
        self._transformers: dict[bytes, Any] = {}  # What turns results into Python's types.
        self._sizes: deque[int] = deque()  # Of the batches under way.
        self._results: list[Any] = []  # Of the first of them, until its Sync.

    def rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        """Return a statement's rows. Raises what Django raises for a query."""
        result = self._run(statement, values)
        transformer = self._transformers.get(statement.name)
        if transformer is None:
            transformer = self._transformers[statement.name] = Transformer(self._connection)
            transformer.set_pgresult(result)
        else:
            transformer.set_pgresult(result, set_loaders=False)
        return transformer.load_rows(0, result.ntuples, tuple)

    def _run(self, statement: Statement, values: Sequence[Value] = ()) -> Any:
        """Return libpq's result. Raises what Django raises for a query."""
        try:
            result = self._result(statement, values)
        except PipeError as error:
            as_django = DatabaseAwayError if is_away(self._alias) else OperationalError
            raise as_django(str(error)) from error
        if result.status not in DONE:
            failure = errors.error_from_result(result)
            if isinstance(failure, errors.ReadOnlySqlTransaction):
                self.close()  # The server has become a standby.
            with self._wrapper.wrap_database_errors:
                raise failure
        return result

    def _be_open(self) -> None:
        if not self._asked and self._is_obsolete():
            self.close()
        super()._be_open()

    def _is_obsolete(self) -> bool:
        """Tell whether the server was away since it was connected to: another may be the primary now."""
        server = servers.get(self._alias)
        return self.is_open and server is not None and self._connection.generation != server.generation

    def _result(self, statement: Statement, values: Sequence[Value]) -> Any:
        types, parameters = encoded(values)
        for _ in range(ATTEMPTS):
            self._be_open()
            try:
                result = self._ask(statement, types, parameters)
            except LostError:
                if self._repeats:
                    continue
                raise
            if was_forgotten(result):
                self._prepared.discard(statement.name)
            elif result.status != pq.ExecStatus.PIPELINE_ABORTED:  # Nobody's failure took it along.
                return result
        message = f"The statement was not answered in {ATTEMPTS} attempts."
        raise PipeError(message)

    def _ask(self, statement: Statement, types: Types, parameters: Parameters) -> Any:
        if self._prepares and statement.name not in self._prepared:
            self._prepared.add(statement.name)  # Whoever comes next stands behind this one.
            self._connection.pgconn.send_prepare(statement.name, statement.sql, types)
            result = self._wait_for_answer()
            if result.status != pq.ExecStatus.COMMAND_OK:
                self._prepared.discard(statement.name)
                return result
        self._put(statement, types, parameters)
        return self._wait_for_answer()

    def _put(self, statement: Statement, types: Types, parameters: Parameters) -> None:
        if self._prepares:
            self._connection.pgconn.send_query_prepared(statement.name, parameters)
        else:
            self._connection.pgconn.send_query_params(statement.sql, parameters, types)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._wrapper = await loop.run_in_executor(connecting(), connect, self._alias)
        self._connection = self._wrapper.connection
        libpq = self._connection.pgconn
        libpq.nonblocking = 1
        libpq.enter_pipeline_mode()
        # Behind a pooler that hands out transactions, nothing stays prepared.
        self._prepares = self._wrapper.settings_dict["OPTIONS"].get("prepare_threshold") is not None
        self._prepared, self._transformers = set(), {}
        self._sizes, self._results = deque(), []
        self._socket = libpq.socket
        loop.add_reader(self._socket, self._readable)

    def _close(self) -> None:
        if self._connection is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._connection.pgconn.finish()
            self._connection = None

    def _is_away(self) -> bool:
        return is_away(self._alias)

    def _flush(self) -> None:
        self._sizes.append(len(self._asked) - sum(self._sizes))
        self._connection.pgconn.pipeline_sync()
        self._write()

    def _write(self) -> None:
        if self._connection.pgconn.flush():
            self._loop.add_writer(self._socket, self._write)
        else:
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        """Give each result to whoever has asked for it."""
        libpq = self._connection.pgconn
        try:
            libpq.consume_input()
            arrived = results(libpq)
        except Exception as error:  # noqa: BLE001  The server has gone.
            self._lose(LostError(str(error)))
            return
        for result in arrived:
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                self._deliver()
            else:
                self._results.append(result)
        if libpq.status == pq.ConnStatus.BAD:
            self._lose(LostError("closed by the server"))

    def _deliver(self) -> None:
        """Give a batch's results to those who have asked; an error of the commit is everybody's."""
        size = self._sizes.popleft()
        found, self._results = self._results, []
        if len(found) > size:
            found = [found[size]] * size
        for result in found:
            self._asked.popleft()[0].switch(result)


def results(libpq: Any) -> list[Any]:
    """Return the results that are complete, and the Syncs between them."""
    found = []
    ended = False  # libpq says None after each statement, and once more when nothing is left.
    while not libpq.is_busy():
        result = libpq.get_result()
        if result is None and ended:
            break
        ended = result is None or result.status == pq.ExecStatus.PIPELINE_SYNC
        if result is not None:
            found.append(result)
    return found


def was_forgotten(result: Any) -> bool:
    """Tell whether the statement failed because the server has not, or no more, prepared it."""
    if result.status != pq.ExecStatus.FATAL_ERROR:
        return False
    return bool(result.error_field(pq.DiagnosticField.SQLSTATE) == NOT_PREPARED)


def encoded(values: Sequence[Value]) -> tuple[Types, Parameters]:
    """Return the values' types, and the values, as libpq takes them."""
    kinds = [kind(value) for value in values]
    return [OIDS[one] for one in kinds], [
        ENCODE[one](value) for one, value in zip(kinds, values, strict=True)
    ]


@cache
def connecting() -> ThreadPoolExecutor:
    """Return this process's threads for connecting; those for what else blocks may all be taken."""
    return ThreadPoolExecutor(CONNECTING, thread_name_prefix="connecting")


def connect(alias: str) -> BaseDatabaseWrapper:
    """Return a new connection of Django's, which belongs to no thread."""
    wrapper = connections.create_connection(alias)
    wrapper.connect()
    return wrapper


@cache
def reader(alias: str) -> PostgresqlPipe:
    """Return this process's connection for reads."""
    return PostgresqlPipe(alias, reads=True)


def numbered(sql: str) -> bytes:
    """Return SQL with $1, $2 ... for Django's %s."""
    first, *rest = sql.split("%s")
    text = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    return text.replace("%%", "%").encode()
