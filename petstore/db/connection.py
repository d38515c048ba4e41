"""A psycopg connection on which waiting for a reply can be aborted."""

import os
from collections.abc import Callable
from time import monotonic
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen

TICK = 0.05  # Seconds between two checks of `should_abort`.
# libpq sends it when it connects. psycopg can't parse other styles, which the database may have as default.
os.environ["PGDATESTYLE"] = "ISO"
STALL_SECONDS = 0.3  # If connecting exceeds its timeout by this time, the process was suspended.


class Connection(psycopg.Connection[Any]):
    """A connection that closes when a reply is late or `should_abort` returns True."""

    should_abort: Callable[[], bool] = staticmethod(lambda: False)
    response_timeout = float("inf")  # Seconds.
    generation = 0  # The generation of the server when the connection was opened.

    def wait(self, gen: PQGen[RV], interval: float = TICK, timeout: float | None = None) -> RV:
        """Wait as psycopg does. Raises psycopg.OperationalError when waiting is aborted."""
        if self.response_timeout < float("inf"):
            gen = self._abort_when_late(gen, monotonic() + self.response_timeout)
        return super().wait(gen, interval, timeout)

    def _abort_when_late(self, gen: PQGen[RV], deadline: float) -> PQGen[RV]:
        # A reply is late if two checks find it missing, because the process may have been suspended.
        is_late = False
        try:
            wait_for = next(gen)
            while True:
                ready = yield wait_for
                was_late, is_late = is_late, not ready and monotonic() > deadline
                if (was_late and is_late) or (not ready and self.should_abort()):
                    self.pgconn.finish()
                    raise psycopg.OperationalError("The server does not respond.")
                wait_for = gen.send(ready)
        except StopIteration as stop:
            result: RV = stop.value
            return result


def connect(params: dict[str, Any]) -> Connection:
    """Connect, and retry once if the process was suspended during the timeout."""
    hosts = str(params.get("host", "")).count(",") + 1
    timeout = float(params.get("connect_timeout", 2)) * hosts
    started_at = monotonic()
    try:
        return Connection.connect(**params)
    except psycopg.errors.ConnectionTimeout:
        if monotonic() - started_at < timeout + STALL_SECONDS:
            raise
        return Connection.connect(**params)


def requires_primary(settings_dict: dict[str, Any]) -> bool:
    """Return whether DATABASE_URL requires a primary, as it should if it names several hosts."""
    return settings_dict["OPTIONS"].get("target_session_attrs") in {"read-write", "primary"}
