"""Samples the state of the service once a minute, for the status page.

Every worker wakes up once a minute, at a random second. The first one measures and writes the sample, and
the others find it. Samples that can't be written stay in memory until the database is available again, so
that the status page shows its outage.
"""

import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from random import uniform
from threading import Thread

from django.db import Error, connection, transaction

from accounts.quota import store
from accounts.usage.write_behind import run_safely
from petstore.health.checks import OK, SLOW_SECONDS, TIMEOUT_SECONDS, Check, checks, run_checks
from petstore.health.models import State, StatusSample
from petstore.observability.healthcheck import is_alive
from petstore.server.shutdown import is_draining

MINUTE = 60  # Seconds.
MINUTES_PER_DAY = 24 * 60
RETENTION = 26 * 60  # Minutes. The status page shows 24 hours and the current one.
MAX_DELAY = 30  # Seconds after the start of a minute.

status_checks = checks | {"redis": Check(store.check_redis)}


def measure() -> dict[str, State]:
    """Return the state of each part. The API is up if this process could serve a request."""
    results = run_checks(status_checks, TIMEOUT_SECONDS)
    is_slow = checks["database"].last_duration >= SLOW_SECONDS
    database = State.DOWN if results["database"] != OK else State.DEGRADED if is_slow else State.UP
    quota_store = database
    if store.redis is not None and results["redis"] == OK:
        quota_store = State.UP
    elif store.redis is not None and database == State.UP:
        quota_store = State.DEGRADED
    api = State.UP if all(results[name] == OK for name in checks) else State.DOWN
    return {"api": api, "database": database, "quota_store": quota_store}


def sample(minute: int, unwritten: deque[StatusSample], measure: Callable[[], dict[str, State]]) -> None:
    """Sample the minute unless another process has. Raises Error while samples can't be written."""
    is_sampled = False
    try:
        is_sampled = StatusSample.objects.filter(minute=minute).exists()
    except Error:
        connection.close()
    if not is_sampled:
        unwritten.append(StatusSample(minute=minute, **measure()))
    if unwritten:
        with transaction.atomic():
            StatusSample.objects.bulk_create(unwritten, ignore_conflicts=True)
            StatusSample.objects.filter(minute__lt=minute - RETENTION).delete()
        unwritten.clear()


def run(host: str, port: int) -> None:
    """Sample forever. The API is up if the instance responds to /readyz over HTTP."""
    unwritten: deque[StatusSample] = deque(maxlen=MINUTES_PER_DAY)

    def measure_over_http() -> dict[str, State]:
        return measure() | {"api": State.UP if is_alive(port, host, "/readyz") else State.DOWN}

    while not is_alive(port, host):  # The instance is starting.
        time.sleep(1)
    while True:
        if not is_draining():
            run_safely("status", partial(sample, int(time.time()) // MINUTE, unwritten, measure_over_http))
        time.sleep(MINUTE - time.time() % MINUTE + uniform(0, MAX_DELAY))  # noqa: S311  Not for security.


def start() -> None:
    if host := os.environ.get("SERVE_HOST"):
        Thread(target=run, args=[host, int(os.environ["SERVE_PORT"])], name="status", daemon=True).start()
