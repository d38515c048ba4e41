"""Looks at each PostgreSQL server all the time, so that no request has to find out that one is away.

A thread for each server asks it one question, three times a second, on a connection of its own. A server
that refuses connections, or leaves the question open for ANSWER_SECONDS, is away: from then on those who
wait for it give up and nobody connects (see base.py), until the thread gets an answer again. So a request
fails at most LOOK_EVERY + ANSWER_SECONDS and a moment after its server fell silent, whatever else waits.

Where DATABASE_URL names several hosts, the thread also finds the one that takes writes, and the others
connect to that one: a host that is dead would cost each of them its time limit.
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

from petstore.db.connection import Connection, connect, must_take_writes

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.3  # Seconds.
ANSWER_SECONDS = 1.0  # A server that answers needs a thousandth of it.
START_SECONDS = 3.0  # What a worker waits for the first look, so that its first requests know.
SPARE_SECONDS = 1.0  # The server ends a statement itself; this is how much later nobody waits any more.
MARKS_KEPT = 300  # More than the longest REPLICA_MAX_LAG has.

# The place in the write-ahead log that a primary has written, or a standby has replayed, in bytes.
QUESTION = """
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
    """The watch has found the server away. It has logged why, once."""


class Mark(NamedTuple):
    """Everything that was committed before this moment lies before this place in the log."""

    moment: float  # Of the monotonic clock, in seconds.
    place: int  # In bytes.


class Server:
    """One server, or the one of several hosts that answers."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.away = False
        self.generation = 0  # Goes up whenever the server was away: older connections can't be used.
        self.place: dict[str, Any] = {}  # Parameters of the host that answered, where there are several.
        self.asked_at = 0.0  # When the open question was asked, by the monotonic clock; 0 if none is open.
        self.is_standby = False
        self.marks: tuple[Mark, ...] = ()  # The oldest first.
        self.primary: Server | None = None  # Of a replica.
        self.shows_until = float("-inf")  # A replica shows what was committed before; monotonic clock.
        self.looked = threading.Event()
        self._connection: Connection | None = None

    def watch(self) -> None:
        while True:
            self.look()
            self.looked.set()
            sleep(LOOK_EVERY)

    def look(self) -> None:
        try:
            mark = self._ask()
        except Exception as error:  # noqa: BLE001  Whatever it is, the watch must go on.
            self._lose(error)
        else:
            self.marks = (*self.marks[1 - MARKS_KEPT :], mark)
            if self.primary is not None:
                self._compare(mark, self.primary.marks)
            self._find()

    def _ask(self) -> Mark:
        """Ask on the connection that there is; if that one was cut, on a new one."""
        if self._connection is not None:
            try:
                return self._answer(self._connection)
            except psycopg.Error:
                if self._is_silent():
                    raise
                self._disconnect()
        self._connection = self._connect()
        return self._answer(self._connection)

    def _answer(self, connection: Connection) -> Mark:
        self.asked_at = moment = monotonic()
        with connection.cursor() as cursor:
            cursor.execute(QUESTION)
            self.is_standby, place = cursor.fetchone() or (False, 0)
        self.asked_at = 0.0
        if self.is_standby and must_take_writes(settings.DATABASES[self.alias]):
            raise psycopg.OperationalError("The host takes no writes: it is a standby.")
        return Mark(moment, int(place))

    def _compare(self, replayed: Mark, written: tuple[Mark, ...]) -> None:
        """Note until when a replica shows everything; one that was promoted is no replica any more."""
        if self.is_standby:
            shown = (mark.moment for mark in written if mark.place <= replayed.place)
            self.shows_until = max(self.shows_until, *shown, float("-inf"))
        else:
            self.shows_until = float("-inf")
        LAG.labels(self.alias).set(self.lag)

    @property
    def lag(self) -> float:
        """How many seconds a replica is behind its primary at most; infinity where that is not known."""
        return monotonic() - self.shows_until

    def _is_silent(self) -> bool:
        return self.asked_at > 0 and monotonic() - self.asked_at > ANSWER_SECONDS

    def _connect(self) -> Connection:
        """Connect, to whichever host takes the connection."""
        wrapper = connections.create_connection(self.alias)
        assert isinstance(wrapper, DatabaseWrapper)
        params = wrapper.get_connection_params()
        every_host = {key: wrapper.settings_dict[key.upper()] for key in self.place}
        own = {"autocommit": True, "cursor_factory": psycopg.Cursor}
        connection = connect(params | every_host | own)
        connection.limit = ANSWER_SECONDS
        if "," in wrapper.settings_dict["HOST"]:
            self.place = {"host": connection.info.host, "port": str(connection.info.port)}
        return connection

    def _lose(self, error: Exception) -> None:
        if not self.away:
            self.away = True
            self.generation += 1
            self.marks = ()
            UP.labels(self.alias).set(0)
            logger.error("The database %r is away: %s", self.alias, error)
        self.asked_at = 0.0  # Whoever waits for the answer looks whether it is away.
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _find(self) -> None:
        UP.labels(self.alias).set(1)
        if self.away:
            self.away = False
            logger.warning("The database %r answers again.", self.alias)


servers: dict[str, Server] = {}  # By alias; empty in a process that does not serve.


def watch_servers() -> None:
    """Watch every PostgreSQL server of the settings from now on, each in a thread of its own."""
    for alias, options in settings.DATABASES.items():
        if options["ENGINE"] == "petstore.db":
            servers[alias] = Server(alias)
            servers[alias].primary = servers["default"] if alias != "default" else None
    for server in servers.values():
        threading.Thread(target=server.watch, name=f"watch-{server.alias}", daemon=True).start()
    end = monotonic() + START_SECONDS
    for server in servers.values():
        server.looked.wait(max(0, end - monotonic()))


def patience(alias: str) -> float:
    """Return the seconds after which nobody who serves waits for an answer any more."""
    limit: int = settings.DATABASES[alias]["STATEMENT_TIMEOUT"]
    return limit / 1000 + SPARE_SECONDS


def is_unavailable(alias: str) -> bool:
    """Tell whether the watch finds this database away; False where no watch runs."""
    server = servers.get(alias)
    return server is not None and server.away
