"""Polls each PostgreSQL server, so that requests don't have to wait for a timeout to detect an outage.

A thread for each server runs a query about three times a second on a separate connection. A server that
refuses connections, or does not respond within RESPONSE_SECONDS, is unavailable until it responds again. So
is a standby if DATABASE_URL requires a primary. In the meantime, waiting queries fail and no connections
are opened (see base.py). A request therefore fails little more than POLL_SECONDS + RESPONSE_SECONDS after
its server stopped responding.

If DATABASE_URL names several hosts, the thread also finds the primary. Other connections go directly to it,
because each dead host would delay them by its timeout.
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
START_SECONDS = 3.0  # A worker waits for the first poll for at most this time.
SPARE_SECONDS = 1.0  # Added to the statement timeout, which the server itself enforces.
MAX_POSITIONS = 300  # Enough to cover the longest REPLICA_MAX_LAG.

# The position in the write-ahead log that a primary has written or a standby has replayed, in bytes.
WAL_POSITION_QUERY = """
SELECT pg_is_in_recovery(),
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0'
"""

UP = Gauge(
    "petstore_database_up",
    "1 while every worker can reach this database, which is default or a replica.",
    ["database"],
    multiprocess_mode="livemin",
)
LAG = Gauge(
    "petstore_replica_lag_seconds",
    "Upper bound of this replica's lag behind the primary, the highest of all workers.",
    ["database"],
    multiprocess_mode="livemax",
)


class DatabaseUnavailableError(OperationalError):
    """The monitor found the server unavailable, and has logged the reason."""

    is_logged = True  # The log omits these exceptions.


class WalPosition(NamedTuple):
    """Everything committed before `timestamp` is before `lsn` in the write-ahead log."""

    timestamp: float  # Seconds of the monotonic clock.
    lsn: int  # Bytes.


class Server:
    """The state of a server. If there are several hosts, it is that of the host in use."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.unavailable = False
        self.generation = 0  # Incremented by each outage. Connections of older generations are unusable.
        self.host_params: dict[str, Any] = {}  # The host and port in use, if there are several hosts.
        self.query_sent_at = 0.0  # Seconds of the monotonic clock, or 0 if no query is pending.
        self.is_standby = False
        self.positions: tuple[WalPosition, ...] = ()  # The oldest is first.
        self.primary: Server | None = None  # Set for replicas.
        # A replica shows everything that was committed before this time of the monotonic clock.
        self.visible_until = float("-inf")
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
            self.positions = (*self.positions[1 - MAX_POSITIONS :], position)
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
            raise psycopg.OperationalError("The host is a standby, which accepts no writes.")
        return WalPosition(timestamp, int(lsn))

    def _update_lag(self, replayed: WalPosition, written: tuple[WalPosition, ...]) -> None:
        if self.is_standby:
            visible = (position.timestamp for position in written if position.lsn <= replayed.lsn)
            self.visible_until = max(self.visible_until, *visible, float("-inf"))
        else:  # The replica was promoted, so it must no longer be read.
            self.visible_until = float("-inf")
        LAG.labels(self.alias).set(self.lag)

    @property
    def lag(self) -> float:
        """The upper bound of a replica's lag in seconds, or infinity if it is unknown."""
        return monotonic() - self.visible_until

    def _has_timed_out(self) -> bool:
        return self.query_sent_at > 0 and monotonic() - self.query_sent_at > RESPONSE_SECONDS

    def _connect(self) -> Connection:
        wrapper = connections.create_connection(self.alias)
        assert isinstance(wrapper, DatabaseWrapper)
        params = wrapper.get_connection_params()
        # Try every host again, since another one may be the primary now.
        all_hosts = {key: wrapper.settings_dict[key.upper()] for key in self.host_params}
        connection = connect(params | all_hosts | {"autocommit": True, "cursor_factory": psycopg.Cursor})
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
        self.query_sent_at = 0.0  # Ends the wait in `wait_for_monitor`.
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


servers: dict[str, Server] = {}  # By alias. Empty unless this process serves requests.


def start_monitor() -> None:
    """Start a thread for each PostgreSQL server of the settings, and wait for their first polls."""
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
    """Return the timeout of a reply in a serving process, in seconds."""
    milliseconds: int = settings.DATABASES[alias]["STATEMENT_TIMEOUT"]
    return milliseconds / 1000 + SPARE_SECONDS


def is_unavailable(alias: str) -> bool:
    """Return whether the monitor finds the server unavailable. False if no monitor runs."""
    server = servers.get(alias)
    return server is not None and server.unavailable
