"""Readiness checks.

Each check runs in its own thread, and its caller waits with a timeout. Concurrent callers share a running
check, so a check that hangs occupies a single thread.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import cache
from pkgutil import iter_modules

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, Error, connection
from django.db.migrations.recorder import MigrationRecorder

from petstore.db import monitor, replicas

logger = logging.getLogger(__name__)

OK = "ok"
NO_RESPONSE = "no answer"
FAILED = "failed"
TIMEOUT_SECONDS = 1.0  # For all checks, which run concurrently.
SLOW_SECONDS = 0.25


class Check:
    """Runs a probe, a function that returns the state of one dependency."""

    def __init__(self, probe: Callable[[], str]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._running: Future[str] | None = None
        self.last_duration = 0.0  # Seconds.

    def start(self) -> "Future[str]":
        """Start a run, or return the current one."""
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
        finally:
            connection.close()  # It belongs to this thread, which ends here.
        self.last_duration = time.monotonic() - started
        with self._lock:
            self._running = None
        run.set_result(state)


def run_checks(checks: Mapping[str, Check], timeout: float) -> dict[str, str]:
    """Run the checks concurrently. The state of a check that exceeds the timeout is NO_RESPONSE."""
    runs = {name: check.start() for name, check in checks.items()}
    wait(runs.values(), timeout)
    return {name: run.result() if run.done() else NO_RESPONSE for name, run in runs.items()}


def check_database() -> str:
    if DEFAULT_DB_ALIAS in monitor.servers:
        return "unreachable" if monitor.is_unavailable(DEFAULT_DB_ALIAS) else OK
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "unreachable"
    return OK


def check_migrations() -> str:
    """Return `ok`, `missing` if a migration of this version is unapplied, or `unknown` on an error."""
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except Error:
        return "unknown"
    return OK if find_migrations() <= applied.keys() else "missing"


@cache
def find_migrations() -> frozenset[tuple[str, str]]:
    """List the migrations by their file names. Importing them would enlarge each worker."""
    return frozenset(
        (app.label, module.name)
        for app in apps.get_app_configs()
        for module in iter_modules([f"{app.path}/migrations"])
        if module.name[0] not in "_~"  # As in Django's loader.
    )


checks = {"database": Check(check_database), "migrations": Check(check_migrations)}


def check_readiness() -> dict[str, str]:
    """Return `status` (`ok` or `unavailable`) and the state of each dependency.

    Replicas don't affect the status, because the primary substitutes for them.
    """
    states = run_checks(checks, TIMEOUT_SECONDS)
    status = OK if set(states.values()) == {OK} else "unavailable"
    return {"status": status, **states, **replicas.get_states()}
