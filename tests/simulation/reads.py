"""Requests that read and write PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from django.conf import settings
from django.db import DatabaseError, IntegrityError, InternalError, OperationalError

from petstore.db import monitor
from petstore.db.monitor import get_response_timeout
from petstore.event_loop import connector
from petstore.event_loop.connection_pool import ConnectionPool
from petstore.event_loop.connector import CONNECT_THREADS, get_connect_timeout
from petstore.event_loop.libpq import Statement
from petstore.event_loop.pg_connection import RETRY_WITHIN, PostgresqlConnection, ReadPipeline
from petstore.event_loop.shared_connection import RECONNECT_DELAY
from tests.simulation.libpq import CONNECT_TIMEOUT, connect_in
from tests.simulation.postgresql import ALIAS, SLOWEST_GREETING, SimulatedPostgresql
from tests.simulation.scenario import Request, Scenario, answer_bound
from tests.simulation.threads import Threads

READ = Statement(b"read", b"READ $1")
READ_MORE = Statement(b"more", b"READ $1 MORE")
ADD = Statement(b"add", b"ADD $1")
LATE = Statement(b"late", b"LATE $1")
FAIL = Statement(b"fail", b"FAIL")
WRONG = Statement(b"wrong", b"WRONG")
STATEMENT_TIMEOUT = 300  # Milliseconds.
QUEUE_TIMEOUT = 700  # Milliseconds.
WRITE_CONNECTIONS = 3


class PostgresqlScenario(Scenario):
    """The base of reads and writes."""

    recovery = CONNECT_TIMEOUT + SLOWEST_GREETING + RECONNECT_DELAY + 0.5

    def prepare(self) -> None:
        self.server = SimulatedPostgresql(self.world, self.network)
        self.network.usual = 0.0005
        prepares = self.chance.random() < 0.8
        connector.connect = connect_in(self.loop, self.server, prepares=prepares)  # type: ignore[assignment]
        if self.chance.random() < 0.5:
            self.server.monitored = monitor.servers[ALIAS] = monitor.Server(ALIAS)
        self.server.slow = 0.0 if self.is_calm else self.chance.choice((0.0, 0.2))

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
        return [server.cut_some, server.go_away, server.fail_over, server.freeze, server.forget]

    def calm_actions(self) -> list[Callable[[], object]]:
        return [self.server.alter] if not self.is_calm else []

    def heal(self) -> None:
        self.server.slow = 0.0
        self.server.end_standbys()


class ReaderScenario(PostgresqlScenario):
    """Each request reads its own number; failures of some must not affect others."""

    def prepare(self) -> None:
        super().prepare()
        self.reader = ReadPipeline(ALIAS)

    def requests(self) -> list[Request]:
        return [self._request(number) for number in range(self.chance.randrange(4, 20))]

    def last_request(self, number: int) -> Request:
        return self._reading(number, READ)

    def _request(self, number: int) -> Request:
        if self.chance.random() < 0.15:
            statement = self.chance.choice((FAIL, WRONG))
            return Request(
                f"fails {number}",
                lambda: failure(lambda: self.reader.fetch_rows(statement, [])),
                lambda error: None,
                (OperationalError,),
                self.bound,
            )
        return self._reading(number, self.chance.choice((READ, READ_MORE)))

    def _reading(self, number: int, statement: Statement) -> Request:
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
        """A connection and two answers, of which the second fails with another's; then both once more.

        What was lost is asked again only within RETRY_WITHIN, which is less than an answer may take.
        """
        assert get_response_timeout(ALIAS) >= RETRY_WITHIN
        return 2 * answer_bound(get_connect_timeout(ALIAS)) + 3 * answer_bound(get_response_timeout(ALIAS))

    def check_end(self) -> None:
        self.check_that_one_is_held(self.reader._connection)

    def close(self) -> None:
        self.reader.close()


class WriterScenario(PostgresqlScenario):
    """Each request adds its own rows, alone or in a transaction; some are rolled back."""

    def prepare(self) -> None:
        super().prepare()
        self.writers = ConnectionPool(ALIAS)
        self.acknowledged: list[list[bytes]] = []
        self.attempted: list[list[bytes]] = []
        self.undone: list[list[bytes]] = []

    def requests(self) -> list[Request]:
        return [self._request(number) for number in range(self.chance.randrange(4, 16))]

    def last_request(self, number: int) -> Request:
        token = 9000 + number
        return self._write(token, lambda: self.writers.fetch_rows(ADD, [token]), [token])

    def _request(self, number: int) -> Request:
        kind = self.chance.randrange(5)
        if kind == 0:
            return self._write(number, lambda: self.writers.fetch_rows(ADD, [number]), [number])
        first, second = 1000 + 2 * number, 1001 + 2 * number
        if kind == 4:
            return self._late(number)

        def both() -> Any:
            with self.writers.transaction():
                self.writers.fetch_rows(ADD, [first])
                if kind == 1:
                    self.writers.send(ADD, [second])
                else:
                    self.writers.fetch_rows(ADD, [second])
                if kind == 2:
                    raise ZeroDivisionError
            return [(b"%d" % number,)]

        return self._write(number, both, [first, second], is_undone=kind == 2)

    def _late(self, number: int) -> Request:
        """Make a request whose COMMIT fails, which must not count as committed."""

        def run() -> Any:
            try:
                self.writers.fetch_rows(LATE, [number])
            except IntegrityError:
                return None
            return "no error"

        self.undone.append([b"%d" % number])
        return Request(
            f"fails late {number}", run, lambda result: result, self.errors_of_writes, self.bound
        )

    errors_of_writes = (OperationalError, InternalError)  # The second is raised by a standby.

    def _write(
        self, number: int, run: Callable[[], Any], tokens: list[int], *, is_undone: bool = False
    ) -> Request:
        written = [b"%d" % token for token in tokens]

        def whole() -> Any:
            self.attempted.append(written)
            try:
                result = run()
            except ZeroDivisionError:
                self.undone.append(written)
                return [(b"%d" % number,)]
            self.acknowledged.append(written)
            return result

        return Request(
            f"writes {tokens}{' in vain' if is_undone else ''}",
            whole,
            lambda rows: None if rows == [(b"%d" % number,)] else f"got {rows}",
            self.errors_of_writes,
            self.bound,
        )

    @property
    def bound(self) -> float:
        """Its turn; then up to ten answers: it prepares, begins, adds twice, commits, rolls back."""
        return QUEUE_TIMEOUT / 1000 + 10 * answer_bound(get_response_timeout(ALIAS))

    def check_end(self) -> None:
        self._check_rows()
        self._check_pool()

    def _check_rows(self) -> None:
        committed = self.server.database.committed
        for token, times in committed.items():
            if times > 1:
                self.world.violate(f"{token!r} was committed {times} times.")
        for tokens in self.acknowledged:
            if any(not committed[token] for token in tokens):
                self.world.violate(f"{tokens} were acknowledged and are missing.")
        for tokens in self.undone:
            if any(committed[token] for token in tokens):
                self.world.violate(f"{tokens} were undone and are there.")
        for tokens in self.attempted:
            if len({bool(committed[token]) for token in tokens}) > 1:
                self.world.violate(f"{tokens} were committed in part.")

    def _check_pool(self) -> None:
        pool = self.writers
        held = [one for one in pool._open if one.error is None]
        if len(self.network.open) != len(held):
            self.world.violate(f"{len(self.network.open)} sockets are open, {len(held)} have an owner.")
        living = [one for one in pool._idle if one.error is None]
        if len(set(map(id, living))) != len(living) or set(map(id, living)) != set(map(id, held)):
            self.world.violate("A connection is idle twice, or lent to no request.")
        if any(not one.is_idle for one in living):
            self.world.violate("A connection with an open transaction is idle.")
        if pool._waiting or pool._opening:
            self.world.violate("A request waits for ever.")
        for session in self.server.sessions.values():
            if session.staged and not session.socket.is_closed:
                self.world.violate("A transaction outlives its owner.")

    def close(self) -> None:
        for connection in self.writers._open:
            connection.close()


def failure(run: Callable[[], Any]) -> Exception:
    """Return what is raised: only the failure of the statement itself. Raises OperationalError."""
    try:
        result = run()
    except OperationalError:
        raise
    except DatabaseError as error:
        return error
    raise AssertionError(f"It did not fail: {result}")
