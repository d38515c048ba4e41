"""Whether the service can serve, part by part: what load balancers ask.

A check can't hang whoever asks, and never runs twice at once: each runs in a thread of its own, because
nothing else could leave one that hangs; whoever asks while it runs gets that one's answer. So however many
ask and however long a check hangs, it holds one thread.
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
NO_ANSWER = "no answer"
FAILED = "failed"
LIMIT = 1.0  # Seconds for all checks.
SLOW = 0.25  # Seconds from which a part counts as slow.


class Check:
    """A function that examines a part of the service and returns its state in a word."""

    def __init__(self, examine: Callable[[], str]) -> None:
        self._examine = examine
        self._lock = threading.Lock()
        self._running: Future[str] | None = None
        self.seconds = 0.0  # That the last run took.

    def start(self) -> "Future[str]":
        """Return the run that is under way, or begin one."""
        with self._lock:
            if self._running is None:
                self._running = Future()
                threading.Thread(target=self._run, args=[self._running], daemon=True).start()
            return self._running

    def _run(self, run: "Future[str]") -> None:
        began = time.monotonic()
        try:
            state = self._examine()
        except Exception:  # Whatever it is, the part is not well.
            logger.exception("A check of readiness failed.")
            state = FAILED
        self.seconds = time.monotonic() - began
        with self._lock:
            self._running = None
        run.set_result(state)


def states(checks: Mapping[str, Check], limit: float) -> dict[str, str]:
    """Run the checks side by side; after that many seconds the state of the others is `no answer`."""
    runs = {name: check.start() for name, check in checks.items()}
    wait(runs.values(), limit)
    return {name: run.result() if run.done() else NO_ANSWER for name, run in runs.items()}


def database() -> str:
    """Return `ok`, or `unreachable`. Where the watch runs it has just asked."""
    if DEFAULT_DB_ALIAS in monitor.servers:
        return "unreachable" if monitor.is_unavailable(DEFAULT_DB_ALIAS) else OK
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "unreachable"
    finally:
        connection.close()  # The check's thread ends with it.
    return OK


def migrations() -> str:
    """Return `ok`, `missing` while one of this version is not applied, `unknown` without a database."""
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except Error:
        return "unknown"
    finally:
        connection.close()
    return OK if needed() <= applied.keys() else "missing"


@cache
def needed() -> frozenset[tuple[str, str]]:
    """Return the app and the name of each migration of this version."""
    return frozenset(MigrationLoader(None).disk_migrations or ())


checks = {"database": Check(database), "migrations": Check(migrations)}


def readiness() -> dict[str, str]:
    """Return `status`, `ok` or `unavailable`, and the state of each part.

    Replicas and Redis stop nobody: while they are away, the primary is read, and the database counts.
    """
    parts = states(checks, LIMIT)
    status = OK if set(parts.values()) == {OK} else "unavailable"
    return {"status": status, **parts, **replicas.states(), "quota": store.state()}


def slow(among: Mapping[str, Check] = checks) -> list[str]:
    """Return the parts whose last check took long."""
    return [name for name, check in among.items() if check.seconds >= SLOW]
