"""What the service counts of itself, over all workers of this machine, in Prometheus form.

`manage.py serve` gives its workers a folder (PROMETHEUS_MULTIPROC_DIR) in which each keeps its numbers; any
of them answers for all. Without it, as in tests and commands, a process speaks for itself alone.
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
    "petstore_http_requests_total", "Requests that were answered.", ["route", "method", "status"]
)
REQUEST_SECONDS = Histogram(
    "petstore_http_request_duration_seconds",
    "How long requests took, from the service's side.",
    ["route", "method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
IN_FLIGHT = Gauge(
    "petstore_http_requests_in_flight",
    "Requests that are being answered, sampled every second.",
    multiprocess_mode="livesum",
)
SHED = Counter(
    "petstore_http_requests_shed_total",
    "Requests that got 503 unseen, because a worker had as many under way as it takes.",
)
DECISIONS = Counter(
    "petstore_quota_decisions_total",
    "Requests by what the quota decided, admitted or the code of the refusal, and whom they counted for.",
    ["outcome", "counted_for"],
)
KEYS_REFUSED = Counter(
    "petstore_keys_refused_total", "Requests with a well-formed key that was refused, by why.", ["why"]
)
BANS = Counter("petstore_bans_total", "Keys that were banned.")
REFUSALS_NOT_KEPT = Counter(
    "petstore_refusals_not_kept_total",
    "Refused requests that staff can't look up, because too many of their key or of all came at once.",
)
FOREIGN_REPLIES = Counter(
    "petstore_foreign_replies_total",
    "Replies about a key that came to a request with another: each got 503, and its connection was closed.",
)
# With a label, so that the parent of the workers, which never sets it, has no say.
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
WORKERS = Gauge("petstore_workers", "Processes that answer requests.", multiprocess_mode="livesum")
BUILD = Gauge(
    "petstore_build_info",
    "1, with the versions that run.",
    ["version", "python", "django"],
    multiprocess_mode="livemax",
)


class DeferredUpdates:
    """Raises numbers behind the requests in a worker, and at once elsewhere.

    Many in a row take a third of the time that each would take between requests.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[float], None], float]] = deque()
        self._most = 0

    def start(self, most_waiting: int = 20_000) -> None:
        """Let them wait for `catch_up` from now on; those beyond that many are raised at once."""
        self._most = most_waiting

    def stop(self) -> None:
        """Raise those that wait, and from now on at once."""
        self._most = 0
        self.flush()

    def add(self, number: Callable[[float], None], amount: float = 1) -> None:
        """Raise a number: by calling it with the amount."""
        if len(self._waiting) < self._most:
            self._waiting.append((number, amount))
        else:
            number(amount)

    def flush(self) -> None:
        """Raise those that wait; several threads may call this."""
        for _ in range(len(self._waiting)):
            try:
                number, amount = self._waiting.popleft()
            except IndexError:  # Another thread has done so.
                return
            number(amount)


deferred_updates = DeferredUpdates()


@cache
def decision_counter(outcome: str, counted_for: Literal["account", "key", "address"]) -> Callable[[], None]:
    """Return what counts such a decision; looking it up anew costs more than counting."""
    return partial(deferred_updates.add, DECISIONS.labels(outcome, counted_for).inc)
