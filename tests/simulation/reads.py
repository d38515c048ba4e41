"""Requests that read and write PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest import mock

from django.conf import settings
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InternalError,
    OperationalError,
    transaction,
)
from django.db import connection as django_connection
from django.db.transaction import TransactionManagementError
from greenlet import GreenletExit
from psycopg.errors import QueryCanceled

from petstore.db import monitor
from petstore.db.event_loop import connector, dbapi
from petstore.db.event_loop.connection import MAX_ATTEMPTS, PostgresqlConnection
from petstore.db.event_loop.connection_pool import ConnectionPool
from petstore.db.event_loop.connector import CONNECT_THREADS, RECONNECT_DELAY, get_connect_timeout
from petstore.db.event_loop.dbapi import ROLLED_BACK
from petstore.db.event_loop.django_connections import install
from petstore.db.event_loop.greenlets import RequestTask, current_task
from petstore.db.event_loop.libpq import Statement
from petstore.db.event_loop.shared_connection import RETRY_WITHIN, ReadPipeline
from petstore.db.monitor import get_response_timeout
from tests.simulation.libpq import CONNECT_TIMEOUT, connect_in
from tests.simulation.postgresql import ALIAS, SLOWEST_HANDSHAKE, SimulatedPostgresql
from tests.simulation.scenario import Request, Scenario, response_bound
from tests.simulation.threads import Threads

READ = Statement(b"read", b"READ $1")
READ_MORE = Statement(b"more", b"READ $1 MORE")
FAIL = Statement(b"fail", b"FAIL")
WRONG = Statement(b"wrong", b"WRONG")
STATEMENT_TIMEOUT = 300  # Milliseconds.
QUEUE_TIMEOUT = 700  # Milliseconds.
WRITE_CONNECTIONS = 3
# A standby raises the second, and a block the third if the rollback to its savepoint has failed.
WRITE_ERRORS = (OperationalError, InternalError, TransactionManagementError)


class PostgresqlScenario(Scenario):
    """The base of reads and writes."""

    recovery = CONNECT_TIMEOUT + SLOWEST_HANDSHAKE + RECONNECT_DELAY + 0.5

    def prepare(self) -> None:
        self.server = SimulatedPostgresql(self.world, self.network)
        self.network.usual_latency = 0.0005
        prepares = self.chance.random() < 0.8
        connector.connect = connect_in(self.loop, self.server, prepares=prepares)  # type: ignore[assignment]
        if self.chance.random() < 0.5:
            self.server.monitored = monitor.servers[ALIAS] = monitor.Server(ALIAS)
        self.server.slow = 0.0 if self.is_calm else self.chance.choice((0.0, 0.2))
        self.server.slow_handshakes = 0.1 if self.server.slow else 0.0

    @contextmanager
    def patches(self) -> Iterator[None]:
        executor = Threads(self.loop, CONNECT_THREADS)
        with ExitStack() as stack:
            for patch in (
                mock.patch.dict(monitor.servers, clear=True),
                mock.patch.dict(settings.DATABASES[ALIAS], STATEMENT_TIMEOUT=STATEMENT_TIMEOUT),
                mock.patch.object(settings, "QUEUE_TIMEOUT", QUEUE_TIMEOUT),
                mock.patch.object(settings, "WRITE_CONNECTIONS", WRITE_CONNECTIONS),
                mock.patch.object(connector, "connect", None),
                mock.patch.object(connector, "get_connect_threads", executor.get),
                mock.patch.object(
                    PostgresqlConnection, "load_rows", lambda self, statement, result: result.rows
                ),
            ):
                stack.enter_context(patch)
            yield

    def actions(self) -> list[Callable[[], object]]:
        server = self.server
        return [
            server.cut_some,
            server.become_unavailable,
            server.fail_over,
            server.freeze,
            server.deallocate,
        ]

    def calm_actions(self) -> list[Callable[[], object]]:
        return [self.server.alter] if not self.is_calm else []

    def heal(self) -> None:
        self.server.slow = self.server.slow_handshakes = 0.0
        self.server.end_standbys()


class ReaderScenario(PostgresqlScenario):
    """Each request reads its own number; failures of some must not affect others."""

    def prepare(self) -> None:
        super().prepare()
        self.reader = ReadPipeline(ALIAS)

    def requests(self) -> list[Request]:
        return [self._request(number) for number in range(self.chance.randrange(4, 20))]

    def last_request(self, number: int) -> Request:
        return self._read(number, READ)

    def _request(self, number: int) -> Request:
        if self.chance.random() < 0.15:
            statement = self.chance.choice((FAIL, WRONG))
            return Request(
                f"fails {number}",
                lambda: get_error(lambda: self.reader.fetch_rows(statement, [])),
                lambda error: None,
                (OperationalError,),
                self.bound,
            )
        return self._read(number, self.chance.choice((READ, READ_MORE)))

    def _read(self, number: int, statement: Statement) -> Request:
        expected = [(b"%d" % number,)]
        return Request(
            f"reads {number}",
            lambda: self.reader.fetch_rows(statement, [number]),
            lambda rows: None if rows == expected else f"got {rows}",
            (OperationalError,),
            self.bound,
        )

    @property
    def bound(self) -> float:
        """Two attempts to connect, and a response to each attempt: aborted statements are retried.

        A lost request is retried only within RETRY_WITHIN, which is less than the response timeout.
        """
        assert get_response_timeout(ALIAS) >= RETRY_WITHIN
        responses = MAX_ATTEMPTS * response_bound(get_response_timeout(ALIAS))
        return 2 * response_bound(get_connect_timeout(ALIAS)) + responses

    def check_end(self) -> None:
        self.check_only_connection(self.reader._connection)

    def close(self) -> None:
        self.reader.close()


class WriterScenario(PostgresqlScenario):
    """Each request adds its own rows through Django, alone or in a transaction; some are rolled back."""

    def prepare(self) -> None:
        super().prepare()
        self.writers = ConnectionPool(ALIAS)
        self.acknowledged: list[list[bytes]] = []
        self.attempted: list[list[bytes]] = []
        self.rolled_back: list[list[bytes]] = []

    @contextmanager
    def patches(self) -> Iterator[None]:
        install()
        with super().patches(), mock.patch.object(dbapi, "get_write_pool", self._get_pool):
            yield

    def _get_pool(self, alias: str) -> ConnectionPool:
        return self.writers

    def requests(self) -> list[Request]:
        return [self._request(number) for number in range(self.chance.randrange(4, 16))]

    def last_request(self, number: int) -> Request:
        token = 9000 + number
        return self._write(token, lambda: add(token), [token])

    def _request(self, number: int) -> Request:
        kind = self.chance.choice(("alone", "commit", "roll back", "savepoint", "late", "cancel"))
        if kind == "alone":
            return self._write(number, lambda: add(number), [number])
        if kind == "late":
            return self._late(number)
        first, second, third = (1000 + 3 * number + n for n in range(3))

        def write() -> Any:
            if kind == "cancel":
                self._cancel_soon(current_task())
            with transaction.atomic():
                add(first)
                if kind == "savepoint":
                    with suppress(DataError), transaction.atomic():
                        add(third)
                        execute("FAIL")
                add(second)
                if kind == "roll back":
                    raise ZeroDivisionError
            return [(b"%d" % number,)]

        self.rolled_back.append([b"%d" % third])
        return self._write(number, write, [first, second], name=kind)

    def _cancel_soon(self, task: RequestTask) -> None:
        delay = self.chance.choice((0.0, 0.001, 0.01, 0.3)) * self.chance.random()
        self.loop.call_later(delay, self.loop.call_soon, task.throw, GreenletExit())

    def _late(self, number: int) -> Request:
        """Make a request whose COMMIT fails."""

        def run() -> Any:
            try:
                execute("LATE %s", number)
            except IntegrityError:
                return None
            return "no error"

        self.rolled_back.append([b"%d" % number])
        return Request(f"fails late {number}", run, lambda result: result, WRITE_ERRORS, self.bound)

    def _write(
        self, number: int, run: Callable[[], Any], tokens: list[int], *, name: str = "alone"
    ) -> Request:
        written = [b"%d" % token for token in tokens]

        def run_and_record() -> Any:
            self.attempted.append(written)
            try:
                result = run()
            except ZeroDivisionError:
                self.rolled_back.append(written)
                return [(b"%d" % number,)]
            except OperationalError as error:
                if ROLLED_BACK in str(error):
                    self.rolled_back.append(written)
                raise
            self.acknowledged.append(written)
            return result

        return Request(
            f"writes {tokens}: {name}",
            run_and_record,
            lambda rows: None if rows == [(b"%d" % number,)] else f"got {rows}",
            WRITE_ERRORS,
            self.bound,
        )

    def observe(self) -> None:
        greenlets = [task._greenlet for task in self.tasks if task._greenlet is not None]
        wrappers = [wrapper for one in greenlets for wrapper in one.connections.values()]
        lent = [id(one.connection._lent) for one in wrappers if not one.connection.is_idle]
        if len(set(lent)) < len(lent) or set(lent) & set(map(id, self.writers._idle)):
            self.world.violate("Two requests share a connection.")

    @property
    def bound(self) -> float:
        """The time in the queue, and a response to each statement and to its preparation.

        A statement that was not executed is repeated, on another connection.
        """
        return MAX_ATTEMPTS * QUEUE_TIMEOUT / 1000 + 12 * response_bound(get_response_timeout(ALIAS))

    def check_end(self) -> None:
        self._check_rows()
        self._check_pool()

    def _check_rows(self) -> None:
        committed = self.server.committed
        for token, count in committed.items():
            if count > 1:
                self.world.violate(f"{token!r} was committed {count} times.")
        for tokens in self.acknowledged:
            if any(not committed[token] for token in tokens):
                self.world.violate(f"{tokens} were acknowledged but not committed.")
        for tokens in self.rolled_back:
            if any(committed[token] for token in tokens):
                self.world.violate(f"{tokens} were rolled back but committed.")
        for tokens in self.attempted:
            if len({bool(committed[token]) for token in tokens}) > 1:
                self.world.violate(f"{tokens} were committed in part.")

    def _check_pool(self) -> None:
        pool = self.writers
        usable = [one for one in pool._open if one.error is None]
        if len(self.network.open) != len(usable):
            self.world.violate(f"{len(self.network.open)} sockets are open, {len(usable)} have an owner.")
        idle = [one for one in pool._idle if one.error is None]
        if len(set(map(id, idle))) != len(idle) or set(map(id, idle)) != set(map(id, usable)):
            self.world.violate("A connection is idle twice, or lent to no request.")
        if any(not one.is_idle for one in idle):
            self.world.violate("A connection with an open transaction is in the pool.")
        if pool._waiting or pool._opening:
            self.world.violate("A request waits forever.")
        for session in self.server.sessions.values():
            if session.staged and not session.socket.is_closed:
                self.world.violate("A transaction outlives its owner.")

    def close(self) -> None:
        for connection in self.writers._open:
            connection.close()


def execute(sql: str, *params: int) -> Any:
    with django_connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def add(token: int) -> Any:
    return execute("ADD %s", token)


def get_error(run: Callable[[], Any]) -> Exception:
    """The error of the statement itself. Raises OperationalError for one of the connection."""
    try:
        result = run()
    except DatabaseError as error:
        if isinstance(error, OperationalError) and not isinstance(error.__cause__, QueryCanceled):
            raise
        return error
    raise AssertionError(f"The statement did not fail: {result}")
