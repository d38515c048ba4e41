"""The service's metrics, for Prometheus, summed over all workers of this machine.

`manage.py serve` gives its workers a shared folder (PROMETHEUS_MULTIPROC_DIR), so any of them can report
for all. In tests and commands, a process reports its own numbers.
"""

import os
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram, values

from petstore.observability.metrics_files import Process

if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
    values.ValueClass = values.MultiProcessValue(lambda: Process.id)  # type: ignore[no-untyped-call]

REQUESTS = Counter(
    "petstore_http_requests_total", "Requests that were served.", ["route", "method", "status"]
)
REQUEST_SECONDS = Histogram(
    "petstore_http_request_duration_seconds",
    "Duration of requests.",
    ["route", "method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
IN_FLIGHT = Gauge(
    "petstore_http_requests_in_flight",
    "Requests in progress, sampled every second.",
    multiprocess_mode="livesum",
)
SHED = Counter(
    "petstore_http_requests_shed_total",
    "Requests that got 503 at once, because their worker had too many in progress.",
)
DECISIONS = Counter(
    "petstore_quota_decisions_total",
    "Requests by rate-limit decision (admitted, or the error code) and by what they counted for.",
    ["outcome", "counted_for"],
)
KEYS_REJECTED = Counter(
    "petstore_keys_refused_total", "Requests with a well-formed key that was rejected, by reason.", ["why"]
)
BANS = Counter("petstore_bans_total", "Keys that were banned.")
REJECTIONS_DROPPED = Counter(
    "petstore_refusals_not_kept_total",
    "Rejections that were not logged, because too many came at once.",
)
FOREIGN_REPLIES = Counter(
    "petstore_foreign_replies_total",
    "Replies about a key that came to a request with another: each got 503, and its connection was closed.",
)
# Without its label the supervisor, which never sets it, would export a 0.
STORE_UP = Gauge(
    "petstore_quota_store_up",
    "1 while every worker counts in this store; redis is 0 while one counts in the database instead.",
    ["store"],
    multiprocess_mode="livemin",
)
DATABASE_CONNECTIONS = Gauge(
    "petstore_database_connections",
    "Open connections of requests to a database (its name in the settings), sampled every second.",
    ["database"],
    multiprocess_mode="livesum",
)
WORKERS = Gauge("petstore_workers", "Processes that serve requests.", multiprocess_mode="livesum")
BUILD = Gauge(
    "petstore_build_info",
    "1, with the versions that run.",
    ["version", "python", "django"],
    multiprocess_mode="livemax",
)


class DeferredUpdates:
    """Queues updates of metrics in a worker, to apply them in batches off the request path."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Callable[[float], None], float]] = deque()
        self._max_queued = 0

    def start(self, max_queued: int = 20_000) -> None:
        """Queue updates until `flush`; with `max_queued` in the queue, apply further ones immediately."""
        self._max_queued = max_queued

    def stop(self) -> None:
        self._max_queued = 0
        self.flush()

    def add(self, update: Callable[[float], None], amount: float = 1) -> None:
        if len(self._queue) < self._max_queued:
            self._queue.append((update, amount))
        else:
            update(amount)

    def flush(self) -> None:
        """Apply queued updates. Thread-safe."""
        for _ in range(len(self._queue)):
            try:
                update, amount = self._queue.popleft()
            except IndexError:  # Another thread has flushed the rest.
                return
            update(amount)


deferred_updates = DeferredUpdates()


@cache  # Looking up the labels costs more than the update.
def decision_counter(outcome: str, counted_for: Literal["account", "key", "address"]) -> Callable[[], None]:
    return partial(deferred_updates.add, DECISIONS.labels(outcome, counted_for).inc)
