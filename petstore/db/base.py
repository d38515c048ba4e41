"""Django's PostgreSQL backend for a process that keeps running during an outage of its database.

Django waits for a reply for as long as the connection is open. An unresponsive server (a hanging machine, a
broken network, a pooler without a server) would therefore block every thread. With this backend, a query
fails as soon as the monitor finds the server unavailable. It also fails after the statement timeout, in
case only its connection is dead. Connecting to an unavailable server fails at once.
"""

import select
from time import monotonic, sleep
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql import base, operations
from psycopg import IsolationLevel

from petstore.db import monitor
from petstore.db.connection import TICK, Connection, connect, requires_primary
from petstore.db.folding import fold
from petstore.db.monitor import DatabaseUnavailableError

MAX_WAIT = 3.0  # Seconds for which connecting waits for the monitor, which may be connecting itself.
SLOW_SECONDS = 0.3  # Connecting waits if the monitor's query has been pending for longer.

# Parameters for connections of a serving process. The server releases the locks of a dead machine within 15
# seconds, and those of a hanging process after idle_in_transaction_session_timeout. The longest legitimate
# pause between two statements is checking an import file of 8 MiB.
SESSION = {
    "tcp_keepalives_idle": 5,  # Seconds.
    "tcp_keepalives_interval": 3,  # Seconds.
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # Milliseconds.
    "idle_in_transaction_session_timeout": 60_000,  # Milliseconds.
    "jit": "off",  # Pages read few rows.
}


class DatabaseOperations(operations.DatabaseOperations):
    def lookup_cast(self, lookup_type: str, internal_type: str | None = None) -> str:
        return super().lookup_cast(lookup_type, internal_type).replace("UPPER(%s::text)", fold("%s::text"))


class DatabaseWrapper(base.DatabaseWrapper):
    """Adds timeouts in a serving process, where the monitor runs, and rejects unsupported options.

    Lookups such as `iexact` fold case by Unicode's rules.
    """

    ops_class = DatabaseOperations
    operators = {
        name: sql.replace("UPPER(%s)", fold("%s")) for name, sql in base.DatabaseWrapper.operators.items()
    }
    pattern_ops = {
        name: sql.replace("UPPER({})", fold("{}")) for name, sql in base.DatabaseWrapper.pattern_ops.items()
    }

    @property
    def server(self) -> monitor.Server | None:
        """The monitored server, or None if no monitor runs in this process."""
        return monitor.servers.get(self.alias)

    def get_connection_params(self) -> dict[str, Any]:
        """Add the host that the monitor last reached, and the timeouts of the session."""
        params = super().get_connection_params()
        server = self.server
        if server is None:
            return params
        if params["prepare_threshold"] is not None:  # None stands for a pooler, which accepts no options.
            parameters = {"statement_timeout": self.settings_dict["STATEMENT_TIMEOUT"], **SESSION}
            options = [f"-c {name}={value}" for name, value in parameters.items()]
            params["options"] = " ".join([params.get("options", ""), *options]).strip()
        return params | server.host_params

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection:
        """Connect. Raises DatabaseUnavailableError while the server is unavailable."""
        if "isolation_level" in self.settings_dict["OPTIONS"] or self.pool:
            raise ImproperlyConfigured("This backend supports neither isolation_level nor pool.")
        self.isolation_level = IsolationLevel.READ_COMMITTED
        server = self.server
        if server is None:
            return connect(conn_params)
        wait_for_monitor(server)
        generation = server.generation
        connection = connect(conn_params)
        connection.generation = generation
        connection.should_abort = lambda: server.unavailable
        connection.response_timeout = monitor.get_response_timeout(self.alias)
        return connection

    def close_if_unusable_or_obsolete(self) -> None:
        """Also close a connection that the server has closed, or that was opened before its outage."""
        server = self.server
        if self.connection is not None and (
            has_input(self.connection) or (server and self.connection.generation != server.generation)
        ):
            self.close()
        super().close_if_unusable_or_obsolete()

    def is_usable(self) -> bool:
        """Also check that the server still accepts writes, if the settings require a primary."""
        return super().is_usable() and not (requires_primary(self.settings_dict) and self._is_read_only())

    def _is_read_only(self) -> bool:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute("SHOW transaction_read_only")
                return bool(cursor.fetchone()[0] == "on")
        except psycopg.Error:
            return True


def has_input(connection: Connection) -> bool:
    """Return whether an idle connection can be read, which usually means that the server closed it."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def wait_for_monitor(server: monitor.Server) -> None:
    """Wait while the monitor's query is slow. Raises DatabaseUnavailableError."""
    deadline = monotonic() + MAX_WAIT
    while (
        not server.unavailable
        and server.query_sent_at
        and deadline > monotonic() > server.query_sent_at + SLOW_SECONDS
    ):
        sleep(TICK / 2)
    if server.unavailable:
        raise DatabaseUnavailableError(f"The database {server.alias!r} is unavailable.")
