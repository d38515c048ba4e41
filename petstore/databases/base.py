"""Django's PostgreSQL backend for a process that outlives its database.

Django waits for an answer as long as the connection stands, so a server that falls silent (a machine that
hangs, a cable that was cut, a pooler without a server) would hold every thread. Here whoever waits gives up
as soon as this process's watch finds the server away, and whoever wants to connect is refused at once.
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql import base
from psycopg import IsolationLevel
from psycopg.abc import RV, PQGen

from petstore.databases import watch
from petstore.databases.watch import DatabaseAwayError

TICK = 0.1  # Seconds between two thoughts of giving up.
SUSPICION = 0.3  # Seconds after which an open question of the watch keeps others from connecting.


class Connection(psycopg.Connection[Any]):
    """A connection that gives up waiting when it is told to; then it is closed."""

    gives_up: Callable[[], bool] | None = None
    generation = 0  # The server's, when this was opened.

    def wait(self, gen: PQGen[RV], interval: float = TICK, timeout: float | None = None) -> RV:
        """Wait for an answer, as psycopg does. Raises psycopg.OperationalError when it gives up."""
        if self.gives_up is not None:
            gen = self._while_wanted(gen, self.gives_up)
        return super().wait(gen, interval, timeout)

    def _while_wanted(self, gen: PQGen[RV], gives_up: Callable[[], bool]) -> PQGen[RV]:
        try:
            wants = next(gen)
            while True:
                ready = yield wants
                if not ready and gives_up():
                    self.pgconn.finish()
                    message = "The server does not answer."
                    raise psycopg.OperationalError(message)
                wants = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper. Only where the watch runs, as it does in a process that serves, it differs."""

    @property
    def server(self) -> "watch.Server | None":
        """What the watch knows of the server; None where no watch runs."""
        return watch.servers.get(self.alias)

    def get_connection_params(self) -> dict[str, Any]:
        """Return what to connect with: the host that answered last, and the time limit of statements."""
        params = super().get_connection_params()
        server = self.server
        if server is None:
            return params
        if params["prepare_threshold"] is not None:  # A pooler, for whom it is None, takes no options.
            limit = self.settings_dict["STATEMENT_TIMEOUT"]
            params["options"] = f"{params.get('options', '')} -c statement_timeout={limit}".strip()
        return params | server.place

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection:
        """Connect. Raises DatabaseAwayError at once while the server is away."""
        if "isolation_level" in self.settings_dict["OPTIONS"] or self.pool:
            text = "This backend knows neither isolation_level nor pool."
            raise ImproperlyConfigured(text)
        self.isolation_level = IsolationLevel.READ_COMMITTED
        server = self.server
        if server is None:
            return Connection.connect(**conn_params)
        wait_for_watch(server)
        generation = server.generation
        connection = Connection.connect(**conn_params)
        connection.generation = generation
        connection.gives_up = lambda: server.away
        return connection

    def close_if_unusable_or_obsolete(self) -> None:
        """Close a connection that is broken, or whose server was away since it was opened."""
        server = self.server
        if self.connection is not None and server and self.connection.generation != server.generation:
            self.close()
        super().close_if_unusable_or_obsolete()

    def is_usable(self) -> bool:
        """Tell whether statements work; on a server that must take writes, whether it still does."""
        return super().is_usable() and not (must_take_writes(self.settings_dict) and self._is_read_only())

    def _is_read_only(self) -> bool:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute("SHOW transaction_read_only")
                return bool(cursor.fetchone()[0] == "on")
        except psycopg.Error:
            return True


def must_take_writes(settings_dict: dict[str, Any]) -> bool:
    """Tell whether DATABASE_URL asks for a host that takes writes, as it should where it names several."""
    return settings_dict["OPTIONS"].get("target_session_attrs") in {"read-write", "primary"}


def wait_for_watch(server: "watch.Server") -> None:
    """Return if the server is not away; while it is slow to answer the watch, wait for the watch's word."""
    while not server.away and server.asked_at and monotonic() - server.asked_at > SUSPICION:
        sleep(TICK / 2)
    if server.away:
        message = f"The database {server.alias!r} is away."
        raise DatabaseAwayError(message)
