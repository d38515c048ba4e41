"""A connection to PostgreSQL that stops waiting when it is told to, and how it is opened."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen

TICK = 0.05  # Seconds after which who waits looks whether to give up.
STOOD_STILL = 0.3  # Seconds that connecting takes longer than its time limit only if this process stopped.


class Connection(psycopg.Connection[Any]):
    """A connection that gives up waiting when it is told to; then it is closed."""

    gives_up: Callable[[], bool] = staticmethod(lambda: False)
    limit = float("inf")  # Seconds that an answer may take.
    generation = 0  # The server's, when this was opened.

    def wait(self, gen: PQGen[RV], interval: float = TICK, timeout: float | None = None) -> RV:
        """Wait for an answer, as psycopg does. Raises psycopg.OperationalError when it gives up."""
        if self.limit < float("inf"):
            gen = self._while_wanted(gen, monotonic() + self.limit)
        return super().wait(gen, interval, timeout)

    def _while_wanted(self, gen: PQGen[RV], ends: float) -> PQGen[RV]:
        late = False  # A process that stood still looks twice: the answer may have come meanwhile.
        try:
            wants = next(gen)
            while True:
                ready = yield wants
                was_late, late = late, not ready and monotonic() > ends
                if (was_late and late) or (not ready and self.gives_up()):
                    self.pgconn.finish()
                    message = "The server does not answer."
                    raise psycopg.OperationalError(message)
                wants = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result


def connect(params: dict[str, Any]) -> Connection:
    """Connect, and a second time where this process stood still while the time limit ran out."""
    hosts = str(params.get("host", "")).count(",") + 1
    limit = float(params.get("connect_timeout", 2)) * hosts
    began = monotonic()
    try:
        return Connection.connect(**params)
    except psycopg.errors.ConnectionTimeout:
        if monotonic() - began < limit + STOOD_STILL:
            raise
        return Connection.connect(**params)


def must_take_writes(settings_dict: dict[str, Any]) -> bool:
    """Tell whether DATABASE_URL asks for a host that takes writes, as it should where it names several."""
    return settings_dict["OPTIONS"].get("target_session_attrs") in {"read-write", "primary"}
