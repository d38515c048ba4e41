"""A psycopg connection whose waiting can be aborted."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen

TICK = 0.05  # Seconds between two checks whether to abort.
STALL_SECONDS = 0.3  # If connecting exceeds its timeout by this, the process was suspended.


class Connection(psycopg.Connection[Any]):
    """A connection that closes when a reply is late or `should_abort` says so."""

    should_abort: Callable[[], bool] = staticmethod(lambda: False)
    response_timeout = float("inf")  # Seconds.
    generation = 0  # Of the server when this was opened.

    def wait(self, gen: PQGen[RV], interval: float = TICK, timeout: float | None = None) -> RV:
        """Wait as psycopg does. Raises psycopg.OperationalError when it aborts."""
        if self.response_timeout < float("inf"):
            gen = self._until_aborted(gen, monotonic() + self.response_timeout)
        return super().wait(gen, interval, timeout)

    def _until_aborted(self, gen: PQGen[RV], deadline: float) -> PQGen[RV]:
        late = False  # Checked twice: the reply may have arrived while the process was stopped.
        try:
            wants = next(gen)
            while True:
                ready = yield wants
                was_late, late = late, not ready and monotonic() > deadline
                if (was_late and late) or (not ready and self.should_abort()):
                    self.pgconn.finish()
                    message = "The server does not respond."
                    raise psycopg.OperationalError(message)
                wants = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result


def connect(params: dict[str, Any]) -> Connection:
    """Connect; retry once if the process was stopped during the timeout."""
    hosts = str(params.get("host", "")).count(",") + 1
    timeout = float(params.get("connect_timeout", 2)) * hosts
    started = monotonic()
    try:
        return Connection.connect(**params)
    except psycopg.errors.ConnectionTimeout:
        if monotonic() - started < timeout + STALL_SECONDS:
            raise
        return Connection.connect(**params)


def requires_primary(settings_dict: dict[str, Any]) -> bool:
    """Whether DATABASE_URL asks for a primary, as it should if it names several hosts."""
    return settings_dict["OPTIONS"].get("target_session_attrs") in {"read-write", "primary"}
