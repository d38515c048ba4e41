"""Samples the state of the service once a minute, for the status page.

Every worker measures at a random second of each minute's first half, and the first one to write its sample
wins. Samples that can't be written stay in memory, for up to a day, until the database is available again,
so that the status page shows its outage.
"""

import os
import time
from collections import deque
from functools import partial
from itertools import starmap
from random import uniform
from threading import Thread

from django.db import transaction

from accounts.usage.write_behind import run_safely
from petstore.db.identity import is_postgresql
from petstore.db.snapshots import get_oldest_snapshot_age
from petstore.health.checks import OK, SLOW_SECONDS, TIMEOUT_SECONDS, checks, run_checks
from petstore.health.history import MINUTES_PER_DAY, count_samples
from petstore.health.models import DAYS, State, StatusDay, StatusSample
from petstore.observability.healthcheck import is_alive
from petstore.observability.metrics import OLDEST_SNAPSHOT
from petstore.server.shutdown import is_draining

MINUTE = 60  # Seconds.
RETENTION = 26 * 60  # Minutes. The status page shows 24 hours and the current one.


def measure() -> dict[str, State]:
    """Return the state of each part. The API is up if this process could serve a request."""
    results = run_checks(checks, TIMEOUT_SECONDS)
    api = State.UP if all(results[name] == OK for name in checks) else State.DOWN
    is_slow = checks["database"].last_duration >= SLOW_SECONDS
    database = State.DOWN if results["database"] != OK else State.DEGRADED if is_slow else State.UP
    return {"api": api, "database": database}


def write(sample: StatusSample, unwritten: deque[StatusSample]) -> None:
    """Write samples and roll up past days, unless another process has. Raises django.db.Error."""
    unwritten.append(sample)
    day = (sample.minute - RETENTION) // MINUTES_PER_DAY  # The first one that keeps its samples.
    with transaction.atomic():
        StatusSample.objects.bulk_create(unwritten, ignore_conflicts=True)
        if past := list(count_samples(range(day * MINUTES_PER_DAY), MINUTES_PER_DAY)):
            StatusDay.objects.bulk_create(starmap(StatusDay, past), ignore_conflicts=True)
            StatusDay.objects.filter(day__lte=day - DAYS).delete()
            StatusSample.objects.filter(minute__lt=day * MINUTES_PER_DAY).delete()
    unwritten.clear()


def record_oldest_snapshot() -> None:
    if is_postgresql():
        OLDEST_SNAPSHOT.set(get_oldest_snapshot_age())


def run(host: str, port: int) -> None:
    """Sample forever, except while draining. The API is up if /readyz responds with 200 over HTTP."""
    unwritten: deque[StatusSample] = deque(maxlen=24 * 60)
    while not is_alive(port, host):  # The instance is starting.
        time.sleep(1)
    while True:
        if not is_draining():
            run_safely("snapshots", record_oldest_snapshot)
            states = measure() | {"api": State.UP if is_alive(port, host, "/readyz") else State.DOWN}
            sample = StatusSample(minute=int(time.time()) // MINUTE, **states)
            run_safely("status", partial(write, sample, unwritten))
        time.sleep(MINUTE - time.time() % MINUTE + uniform(0, 30))  # noqa: S311  Not for security.


def start() -> None:
    if host := os.environ.get("SERVE_HOST"):
        Thread(target=run, args=[host, int(os.environ["SERVE_PORT"])], name="status", daemon=True).start()
