"""Django's PostgreSQL backend for a process that outlives its database.

Django waits for an answer as long as the connection stands, so a server that falls silent (a machine that
hangs, a cable that was cut, a pooler without a server) would hold every thread. Here whoever waits gives up
as soon as this process's watch finds the server away, or when the server should have given up itself (one
connection may be dead while others work); and whoever wants to connect is refused at once.
"""

from time import monotonic, sleep
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql import base
from psycopg import IsolationLevel

from petstore.db import monitor
from petstore.db.connection import TICK, Connection, connect, must_take_writes
from petstore.db.monitor import DatabaseUnavailableError

MOST_WAIT = 3.0  # Seconds for which who wants to connect waits for the watch; it may be connecting itself.
SUSPICION = 0.3  # Seconds after which an open question of the watch keeps others from connecting.

# What the server is told of a connection of a process that serves, so that the locks of a machine that died
# (no word comes from it) go within 15 seconds, and those of a process that hangs within the last of these.
# The longest thing that is done between two statements is to check a file of 8 MiB for its import.
SESSION = {
    "tcp_keepalives_idle": 5,  # Seconds, as the next one.
    "tcp_keepalives_interval": 3,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # Milliseconds, as the next one.
    "idle_in_transaction_session_timeout": 60_000,
}


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper. Only where the watch runs, as it does in a process that serves, it differs."""

    @property
    def server(self) -> monitor.Server | None:
        """What the watch knows of the server; None where no watch runs."""
        return monitor.servers.get(self.alias)

    def get_connection_params(self) -> dict[str, Any]:
        """Return what to connect with: the host that answered last, and the session's time limits."""
        params = super().get_connection_params()
        server = self.server
        if server is None:
            return params
        if params["prepare_threshold"] is not None:  # It is None for a pooler, which takes no options.
            limits = {"statement_timeout": self.settings_dict["STATEMENT_TIMEOUT"], **SESSION}
            options = [f"-c {name}={value}" for name, value in limits.items()]
            params["options"] = " ".join([params.get("options", ""), *options]).strip()
        return params | server.place

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection:
        """Connect. Raises DatabaseUnavailableError at once while the server is away."""
        if "isolation_level" in self.settings_dict["OPTIONS"] or self.pool:
            text = "This backend knows neither isolation_level nor pool."
            raise ImproperlyConfigured(text)
        self.isolation_level = IsolationLevel.READ_COMMITTED
        server = self.server
        if server is None:
            return connect(conn_params)
        wait_for_watch(server)
        generation = server.generation
        connection = connect(conn_params)
        connection.generation = generation
        connection.gives_up = lambda: server.away
        connection.limit = monitor.patience(self.alias)
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


def wait_for_watch(server: monitor.Server) -> None:
    """Return if the server is not away; while it is slow to answer the watch, wait for the watch's word."""
    ends = monotonic() + MOST_WAIT
    while not server.away and server.asked_at and ends > monotonic() > server.asked_at + SUSPICION:
        sleep(TICK / 2)
    if server.away:
        message = f"The database {server.alias!r} is away."
        raise DatabaseUnavailableError(message)
