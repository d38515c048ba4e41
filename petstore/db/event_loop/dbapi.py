"""A DB-API connection (PEP 249) on which Django waits by switching greenlets.

It borrows a connection of the pool for each transaction, and in autocommit mode for each statement. BEGIN
is sent together with the first statement of a transaction. It has what Django's PostgreSQL backend uses of
psycopg's connection, without COPY and cursors on the server.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import Any, Self

import psycopg
from django.db import Error, OperationalError
from greenlet import GreenletExit

from petstore.db.event_loop.connection import MAX_ATTEMPTS, PostgresqlConnection, Rows
from petstore.db.event_loop.connection_pool import get_write_pool
from petstore.db.event_loop.errors import ConnectionFailedError, NotExecutedError, to_django_error
from petstore.db.event_loop.libpq import Statement, Value, compile_statement

Parameters = Sequence[Value] | Mapping[str, Value] | None

NAMED = re.compile(r"%\((\w+)\)s")
MAX_PREPARED = 500  # Statements. Further ones are not prepared.
UNPREPARED = ("SAVEPOINT", "RELEASE", "ROLLBACK")  # Their texts differ each time.
COMMIT, ROLLBACK = Statement(b"", b"COMMIT"), Statement(b"", b"ROLLBACK")

ROLLED_BACK = "The transaction was rolled back."
UNCONFIRMED = "The server did not confirm COMMIT, so the transaction may have been committed."
REENTERED = "A statement is already running. Destructors must not use the database."

# By their SQL and the types of their parameters, which are fixed once a statement is prepared.
statements: dict[tuple[Any, ...], Statement] = {}


class LoopConnection:
    """The connection of one greenlet. Methods raise Django's database errors."""

    def __init__(self, alias: str) -> None:
        """Create it without connecting."""
        self._alias = alias
        self._lent: PostgresqlConnection | None = None
        self._is_busy = False
        self.autocommit = True
        self.closed = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lent to this connection."""
        return self._lent is None

    @property
    def info(self) -> Any:
        """Psycopg's ConnectionInfo of a connection of the pool."""
        try:
            return self._borrow().info
        except ConnectionFailedError as error:
            raise to_django_error(self._alias, error) from error
        finally:
            if self.autocommit:
                self._give_back()

    def execute(self, statement: Statement, values: Sequence[Value]) -> tuple[Any, Rows]:
        """Run a statement. Returns libpq's result and the rows."""
        if self._is_busy:
            raise OperationalError(REENTERED)
        self._is_busy = True
        try:
            return self._execute(statement, values)
        except ConnectionFailedError as error:
            raise to_django_error(self._alias, error) from error
        except (Error, psycopg.Error):
            raise
        except BaseException:  # The request was cancelled while it waited.
            if self._lent is not None:
                self._lent.close()  # It stays lent, so that the transaction can't continue on another.
            raise
        finally:
            self._is_busy = False
            if self.autocommit:
                self._give_back()

    def commit(self) -> None:
        """Commit. Raises OperationalError if that failed, or if the outcome is unknown."""
        if self._lent is None:
            return
        failed_before = self._lent.error is not None
        try:
            result = self._lent.execute(COMMIT, ())
            self._lent.check_result(COMMIT, result)
        except ConnectionFailedError as error:
            failure = to_django_error(self._alias, error)
            message = ROLLED_BACK if failed_before else UNCONFIRMED
            raise type(failure)(f"{message} {failure}") from error
        finally:
            self._give_back()
        if result.command_status != b"COMMIT":  # COMMIT of a failed transaction succeeds, as a ROLLBACK.
            raise OperationalError(ROLLED_BACK)

    def rollback(self) -> None:
        """Roll back, or close the borrowed connection if that fails or the request is cancelled."""
        if self._lent is None:
            return
        # A cancelled request can't wait. A statement that has timed out may still be running.
        if isinstance(sys.exception(), GreenletExit) or self._lent.has_pending_results:
            self._lent.close()
        try:
            with suppress(ConnectionFailedError):
                self._lent.execute(ROLLBACK, ())
        finally:
            self._give_back()

    def close(self) -> None:
        """Close a borrowed connection, whose transaction PostgreSQL then rolls back. Never waits."""
        self.closed = True
        if self._lent is not None:
            self._lent.close()
        self._give_back()

    def _execute(self, statement: Statement, values: Sequence[Value]) -> tuple[Any, Rows]:
        for attempt in count(1):
            connection = self._borrow()
            try:
                result = connection.execute(statement, values)
                connection.check_result(statement, result)
            except NotExecutedError as error:
                if not self.autocommit:
                    connection.close()  # Its other prepared statements may be missing as well.
                    raise ConnectionFailedError(ROLLED_BACK) from error
                if attempt == MAX_ATTEMPTS:
                    raise
                if connection.error is not None:
                    self._give_back()
            else:
                return result, connection.load_rows(statement, result) if result.ntuples else []
        raise AssertionError  # The last attempt raises.

    def _borrow(self) -> PostgresqlConnection:
        if self._lent is None:
            self._lent = get_write_pool(self._alias).acquire()
            if not self.autocommit:
                self._lent.send(b"BEGIN")
        return self._lent

    def _give_back(self) -> None:
        """Return a borrowed connection to the pool, which closes it if anything on it is unfinished."""
        if self._lent is not None:
            lent, self._lent = self._lent, None
            get_write_pool(self._alias).release(lent)


class LoopCursor:
    """The results of one statement at a time."""

    def __init__(self, connection: LoopConnection) -> None:
        self._connection = connection
        self._result: Any = None
        self._rows: Iterator[Any] = iter(())
        self.arraysize = 1

    def execute(self, sql: str, params: Parameters = None) -> Self:
        statement, values = get_statement(sql, params)
        self._result, rows = self._connection.execute(statement, values)
        self._rows = iter(rows)
        return self

    def executemany(self, sql: str, param_list: Iterable[Parameters]) -> None:
        for params in param_list:
            self.execute(sql, params)

    @property
    def rowcount(self) -> int:
        """The number of rows that were selected or changed, or -1 if the statement has none."""
        tuples = self._result and self._result.command_tuples
        return -1 if tuples is None else tuples

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        names = [self._result.fname(column) for column in range(self._result.nfields)]
        return [(name.decode(), *[None] * 6) for name in names] or None

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> Rows:
        return list(islice(self._rows, size or self.arraysize))

    def fetchall(self) -> Rows:
        return list(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def close(self) -> None:
        self._rows = iter(())


def get_statement(sql: str, params: Parameters) -> tuple[Statement, Sequence[Value]]:
    """Compile SQL with %s or %(name)s placeholders. Without `params`, a % stands for itself."""
    if params is None:
        sql, params = sql.replace("%", "%%"), ()
    elif isinstance(params, Mapping):
        params = [params[name] for name in NAMED.findall(sql)]
        sql = NAMED.sub("%s", sql)
    key = (sql, *map(type, params))
    statement = statements.get(key)
    if statement is None:
        statement = compile_statement(sql)
        if sql.startswith(UNPREPARED) or len(statements) >= MAX_PREPARED:
            return statement._replace(name=b""), params
        statements[key] = statement
    return statement, params
