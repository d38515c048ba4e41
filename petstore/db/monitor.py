"""Polls each PostgreSQL server, so that requests need not discover an outage by waiting.

A thread for each server runs one query three times a second, on a connection of its own. A server that
refuses connections, or does not respond within RESPONSE_SECONDS, is unavailable until it responds again:
waiting queries fail, and nothing connects (see base.py). So a request fails at most POLL_SECONDS +
RESPONSE_SECONDS and a little more after its server stopped responding.

If DATABASE_URL names several hosts, the thread also finds the primary, to which other connections then
connect directly: each dead host would cost them its timeout.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic, sleep
from typing import Any, NamedTuple

import psycopg
from django.conf import settings
from django.db import OperationalError, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from prometheus_client import Gauge

from petstore.db.connection import Connection, connect, requires_primary

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.3
RESPONSE_SECONDS = 1.0
START_SECONDS = 3.0  # A worker waits so long for the first poll.
SPARE_SECONDS = 1.0  # Added to the statement timeout, which the server enforces itself.
POSITIONS_STORED = 300  # Cover more than the longest REPLICA_MAX_LAG.

# The position in the write-ahead log that a primary has written, or a standby has replayed, in bytes.
WAL_POSITION_QUERY = """
SELECT pg_is_in_recovery(),
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0'
"""

UP = Gauge(
    "petstore_database_up",
    "1 while every worker reaches this database: default, or a replica.",
    ["database"],
    multiprocess_mode="livemin",
)
LAG = Gauge(
    "petstore_replica_lag_seconds",
    "How far this replica is behind the primary, by the worker that sees it furthest behind.",
    ["database"],
    multiprocess_mode="livemax",
)


class DatabaseUnavailableError(OperationalError):
    """The monitor finds the server unavailable. It has logged the reason."""


class WalPosition(NamedTuple):
    """Everything committed before `timestamp` is before `lsn` in the write-ahead log."""

    timestamp: float  # Of the monotonic clock, in seconds.
    lsn: int  # In bytes.


class Server:
    """The state of one server, or of the one of several hosts that is in use."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.unavailable = False
        self.generation = 0  # Incremented by each outage: connections of older generations are unusable.
        self.host_params: dict[str, Any] = {}  # Host and port in use, if there are several.
        self.query_sent_at = 0.0  # By the monotonic clock; 0 if no query is pending.
        self.is_standby = False
        self.positions: tuple[WalPosition, ...] = ()  # The oldest first.
        self.primary: Server | None = None  # Of a replica.
        self.visible_until = float("-inf")  # A replica shows everything committed before; monotonic clock.
        self.polled = threading.Event()
        self._connection: Connection | None = None

    def run(self) -> None:
        while True:
            self.poll()
            self.polled.set()
            sleep(POLL_SECONDS)

    def poll(self) -> None:
        try:
            position = self._query()
        except Exception as error:  # noqa: BLE001  The monitor must survive any error.
            self._mark_unavailable(error)
        else:
            self.positions = (*self.positions[1 - POSITIONS_STORED :], position)
            if self.primary is not None:
                self._update_lag(position, self.primary.positions)
            self._mark_available()

    def _query(self) -> WalPosition:
        if self._connection is not None:
            try:
                return self._read_position(self._connection)
            except psycopg.Error:
                if self._has_timed_out():
                    raise
                self._disconnect()
        self._connection = self._connect()
        return self._read_position(self._connection)

    def _read_position(self, connection: Connection) -> WalPosition:
        self.query_sent_at = timestamp = monotonic()
        with connection.cursor() as cursor:
            cursor.execute(WAL_POSITION_QUERY)
            self.is_standby, lsn = cursor.fetchone() or (False, 0)
        self.query_sent_at = 0.0
        if self.is_standby and requires_primary(settings.DATABASES[self.alias]):
            raise psycopg.OperationalError("The host accepts no writes: it is a standby.")
        return WalPosition(timestamp, int(lsn))

    def _update_lag(self, replayed: WalPosition, written: tuple[WalPosition, ...]) -> None:
        if self.is_standby:
            visible = (position.timestamp for position in written if position.lsn <= replayed.lsn)
            self.visible_until = max(self.visible_until, *visible, float("-inf"))
        else:  # It was promoted, and must not be read any more.
            self.visible_until = float("-inf")
        LAG.labels(self.alias).set(self.lag)

    @property
    def lag(self) -> float:
        """The upper bound of a replica's lag in seconds; infinity if unknown."""
        return monotonic() - self.visible_until

    def _has_timed_out(self) -> bool:
        return self.query_sent_at > 0 and monotonic() - self.query_sent_at > RESPONSE_SECONDS

    def _connect(self) -> Connection:
        wrapper = connections.create_connection(self.alias)
        assert isinstance(wrapper, DatabaseWrapper)
        params = wrapper.get_connection_params()
        every_host = {key: wrapper.settings_dict[key.upper()] for key in self.host_params}
        own = {"autocommit": True, "cursor_factory": psycopg.Cursor}
        connection = connect(params | every_host | own)
        connection.response_timeout = RESPONSE_SECONDS
        if "," in wrapper.settings_dict["HOST"]:
            self.host_params = {"host": connection.info.host, "port": str(connection.info.port)}
        return connection

    def _mark_unavailable(self, error: Exception) -> None:
        if not self.unavailable:
            self.unavailable = True
            self.generation += 1
            self.positions = ()
            UP.labels(self.alias).set(0)
            logger.error("The database %r is unavailable: %s", self.alias, error)
        self.query_sent_at = 0.0  # Ends `wait_for_monitor`.
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _mark_available(self) -> None:
        UP.labels(self.alias).set(1)
        if self.unavailable:
            self.unavailable = False
            logger.warning("The database %r is available again.", self.alias)


servers: dict[str, Server] = {}  # By alias; empty unless this process serves.


def start_monitor() -> None:
    """Start a thread for every PostgreSQL server of the settings, and wait for the first polls."""
    for alias, options in settings.DATABASES.items():
        if options["ENGINE"] == "petstore.db":
            servers[alias] = Server(alias)
            servers[alias].primary = servers["default"] if alias != "default" else None
    for server in servers.values():
        threading.Thread(target=server.run, name=f"watch-{server.alias}", daemon=True).start()
    deadline = monotonic() + START_SECONDS
    for server in servers.values():
        server.polled.wait(max(0, deadline - monotonic()))


def get_response_timeout(alias: str) -> float:
    """Return the seconds for which a serving process waits for a reply."""
    milliseconds: int = settings.DATABASES[alias]["STATEMENT_TIMEOUT"]
    return milliseconds / 1000 + SPARE_SECONDS


def is_unavailable(alias: str) -> bool:
    """Return False also where no monitor runs."""
    server = servers.get(alias)
    return server is not None and server.unavailable
