"""Simulated connections of libpq, psycopg and Django to the simulated PostgreSQL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import OperationalError
from django.db.utils import DatabaseErrorWrapper
from psycopg import pq
from psycopg.adapt import AdaptersMap

from tests.simulation.loop import Loop
from tests.simulation.network import Socket
from tests.simulation.postgresql import ADDRESS, ALIAS, IDLE, SYNC, Result, SimulatedPostgresql
from tests.simulation.world import ViolationError

CONNECT_TIMEOUT = 2.0  # Seconds: libpq's own.
ACTIVE, UNKNOWN = pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN


class Pgconn:
    """libpq's connection in pipeline mode, with the observable states of fe-exec.c."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._world = socket.world
        self.socket = socket.number
        self.nonblocking = 0
        self.status: Any = pq.ConnStatus.OK
        self._is_finished = False
        self._unsent: list[Any] = []
        self._expected: deque[str] = deque()  # Pending messages; the first is in progress.
        self._arrived: deque[Result] = deque()
        self._state = "idle"
        self._transaction: Any = IDLE

    @property
    def transaction_status(self) -> Any:
        if self.status != pq.ConnStatus.OK:
            return UNKNOWN
        return ACTIVE if self._expected else self._transaction

    def enter_pipeline_mode(self) -> None:
        self._check_usable()

    def send_prepare(self, name: bytes, sql: bytes, types: Any) -> None:
        self._put("parse", name, sql)

    def send_query_prepared(self, name: bytes, parameters: list[Any]) -> None:
        self._put("execute", name, list(parameters))

    def send_query_params(self, sql: bytes, parameters: list[Any], types: Any) -> None:
        self._put("query", sql, list(parameters))

    def pipeline_sync(self) -> None:
        self._put("sync")

    def flush(self) -> int:
        """Send, sometimes only a part."""
        self._check_usable()
        parts, self._unsent = self._unsent, []
        if len(parts) > 1 and self._world.maybe(self._socket.network.splits):
            middle = self._world.chance.randrange(len(parts))
            parts, self._unsent = parts[:middle], parts[middle:]
        self._socket.send(parts)
        return 1 if self._unsent else 0

    def consume_input(self) -> None:
        self._check_usable()
        parts = self._socket.take()
        self._arrived += parts
        if not parts and self._socket.ended:
            self.status = pq.ConnStatus.BAD
            raise psycopg.OperationalError(
                "consuming input failed: server closed the connection unexpectedly"
            )

    def is_busy(self) -> bool:
        return self._state == "busy" and not self._arrived and self.status == pq.ConnStatus.OK

    def get_result(self) -> Result | None:
        if self._is_finished or self._state == "idle":
            return None
        if self._state == "done":
            if self._expected and self._expected[0] != "sync":
                self._expected.popleft()
            self._state = "busy" if self._expected else "idle"
            return None
        if not self._arrived:
            if self.status != pq.ConnStatus.OK:
                self._state = "idle"
                return None
            raise ViolationError("get_result would block the loop.")
        result = self._arrived.popleft()
        if result.status == SYNC:
            self._expected.popleft()
            self._transaction = result.transaction_status
            self._state = "busy" if self._expected else "idle"
        else:
            self._state = "done"
        return result

    def finish(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            self.status = pq.ConnStatus.BAD
            self._socket.close()

    def _put(self, what: str, *arguments: Any) -> None:
        self._check_usable()
        self._unsent.append((what, *arguments))
        self._expected.append(what)
        if self._state == "idle":
            self._state = "busy"

    def _check_usable(self) -> None:
        if self._is_finished:
            raise psycopg.OperationalError("the connection is closed")
        if self.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")


class PgConnection:
    """psycopg's connection."""

    def __init__(self, pgconn: Pgconn, generation: int) -> None:
        self.pgconn = pgconn
        self.generation = generation
        self.adapters = AdaptersMap(psycopg.adapters)

    def close(self) -> None:
        self.pgconn.finish()


class Wrapper:
    """Django's connection."""

    Database = psycopg
    alias = ALIAS

    def __init__(self, connection: PgConnection, *, prepares: bool) -> None:
        self.connection = connection
        self.settings_dict = {"OPTIONS": {"prepare_threshold": 0 if prepares else None}}
        self.errors_occurred = False
        self.wrap_database_errors = DatabaseErrorWrapper(self)


def connect_in(loop: Loop, server: SimulatedPostgresql, *, prepares: bool) -> Callable[[str], Wrapper]:
    """Make a function that connects in a thread, where it blocks in virtual time."""

    def connect(alias: str) -> Wrapper:
        generation = server.monitored.generation if server.monitored is not None else 0
        outcome: list[Socket | None] = []
        socket = server.network.connect(ADDRESS, outcome.append)
        deadline = loop.time() + CONNECT_TIMEOUT
        while not outcome and loop.time() < deadline:
            loop.sleep(0.001 if loop.time() < deadline - CONNECT_TIMEOUT + 0.01 else 0.1)
        if outcome and outcome[0] is not None:
            loop.sleep(server.choose_handshake_time())
        if not outcome or outcome[0] is None or socket.ended:
            socket.close()
            raise OperationalError("connection failed")
        return Wrapper(PgConnection(Pgconn(socket), generation), prepares=prepares)

    return connect
