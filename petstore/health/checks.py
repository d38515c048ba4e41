"""Readiness checks.

Each check runs in its own thread, with a timeout for the caller. Concurrent callers share a running check,
so a check that hangs occupies one thread.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import cache

from django.db import DEFAULT_DB_ALIAS, Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from accounts.quota import store
from petstore.db import monitor, replicas

logger = logging.getLogger(__name__)

OK = "ok"
NO_RESPONSE = "no answer"
FAILED = "failed"
TIMEOUT_SECONDS = 1.0  # For all checks together.
SLOW_SECONDS = 0.25


class Check:
    """A function that returns the state of one part of the service."""

    def __init__(self, probe: Callable[[], str]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._running: Future[str] | None = None
        self.seconds = 0.0  # The duration of the last run.

    def start(self) -> "Future[str]":
        """Join the current run, or start one."""
        with self._lock:
            if self._running is None:
                self._running = Future()
                threading.Thread(target=self._run, args=[self._running], daemon=True).start()
            return self._running

    def _run(self, run: "Future[str]") -> None:
        started = time.monotonic()
        try:
            state = self._probe()
        except Exception:
            logger.exception("A readiness check failed.")
            state = FAILED
        self.seconds = time.monotonic() - started
        with self._lock:
            self._running = None
        run.set_result(state)


def states(checks: Mapping[str, Check], timeout: float) -> dict[str, str]:
    """Run the checks concurrently. Those not done after `timeout` seconds are NO_RESPONSE."""
    runs = {name: check.start() for name, check in checks.items()}
    wait(runs.values(), timeout)
    return {name: run.result() if run.done() else NO_RESPONSE for name, run in runs.items()}


def database() -> str:
    if DEFAULT_DB_ALIAS in monitor.servers:  # The monitor polls it.
        return "unreachable" if monitor.is_unavailable(DEFAULT_DB_ALIAS) else OK
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "unreachable"
    finally:
        connection.close()  # The thread ends here.
    return OK


def migrations() -> str:
    """`ok`, `missing` if one of this version is not applied, or `unknown` without a database."""
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except Error:
        return "unknown"
    finally:
        connection.close()
    return OK if disk_migrations() <= applied.keys() else "missing"


@cache
def disk_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations or ())


checks = {"database": Check(database), "migrations": Check(migrations)}


def readiness() -> dict[str, str]:
    """Return `status` (`ok` or `unavailable`) and the state of each part.

    Replicas and Redis don't affect the status: the primary and the database substitute for them.
    """
    parts = states(checks, TIMEOUT_SECONDS)
    status = OK if set(parts.values()) == {OK} else "unavailable"
    return {"status": status, **parts, **replicas.get_states(), "quota": store.state()}


def slow(among: Mapping[str, Check] = checks) -> list[str]:
    return [name for name, check in among.items() if check.seconds >= SLOW_SECONDS]
