"""Prometheus metrics, which are aggregated over the workers of an instance.

`manage.py serve` gives its workers a shared folder (PROMETHEUS_MULTIPROC_DIR), so each of them can report
for all. In tests and commands, a process reports its own values.
"""

from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from petstore import compatibility

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
OTHER_METHOD = "other"
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
    "Requests rejected with 503 because their worker had too many in progress.",
)
DECISIONS = Counter(
    "petstore_quota_decisions_total",
    "Requests by rate-limit decision (admitted, or the error code) and the limit that counted them.",
    ["outcome", "counted_for"],
)
KEYS_REJECTED = Counter(
    "petstore_keys_rejected_total",
    "Requests with a well-formed key that was rejected, by reason.",
    ["reason"],
)
BANS = Counter("petstore_bans_total", "Keys that were banned.")
REJECTIONS_DROPPED = Counter(
    "petstore_rejections_dropped_total",
    "Rejections missing from the rejection log because there were too many.",
)
EARLIER_KEYS_REJECTED = Counter(
    compatibility.KEYS_REJECTED_METRIC, "The same as petstore_keys_rejected_total. Deprecated.", ["why"]
)
EARLIER_REJECTIONS_DROPPED = Counter(
    compatibility.REJECTIONS_DROPPED_METRIC, "The same as petstore_rejections_dropped_total. Deprecated."
)
BACKGROUND_FAILURES = Counter(
    "petstore_background_failures_total",
    "Failed runs of background tasks of the workers, which are retried.",
    ["task"],
)
EVENT_BACKLOG = Gauge(
    "petstore_event_backlog_seconds",
    "The age of the oldest committed event that has no position in the feed yet.",
    multiprocess_mode="livemax",
)
WEBHOOK_ATTEMPTS = Counter(
    "petstore_webhook_attempts_total",
    "Attempts to deliver an event: success, or why it failed.",
    ["outcome"],
)
WEBHOOK_DELAY = Gauge(
    "petstore_webhook_delay_seconds",
    "For how long the webhook that is due longest has waited for a process, measured every minute.",
    multiprocess_mode="livemax",
)
WEBHOOK_BACKLOG = Gauge(
    "petstore_webhook_backlog_seconds",
    "The age of the oldest event that an enabled webhook has not got, measured every minute.",
    multiprocess_mode="livemax",
)
WEBHOOKS_FAILING = Gauge(
    "petstore_webhooks_failing",
    "Enabled webhooks without a success since a failure, measured every minute.",
    multiprocess_mode="livemax",
)
OLDEST_SNAPSHOT = Gauge(
    "petstore_database_oldest_snapshot_seconds",
    "The age of the oldest transaction with a snapshot, sampled every minute.",
    multiprocess_mode="livemax",
)
DATABASE_CONNECTIONS = Gauge(
    "petstore_database_connections",
    "Open Django connections by database alias, sampled every second.",
    ["database"],
    multiprocess_mode="livesum",
)
WORKERS = Gauge("petstore_workers", "Processes that serve requests.", multiprocess_mode="livesum")
BUILD = Gauge(
    "petstore_build_info",
    "Always 1; the labels are the running versions.",
    ["version", "python", "django"],
    multiprocess_mode="livemax",
)

# Looking up the labels costs more than the update.
get_decision_counter = cache(DECISIONS.labels)


def count_decision(outcome: str, counted_for: str) -> None:
    get_decision_counter(outcome, counted_for).inc()


def count_rejected_key(reason: str) -> None:
    KEYS_REJECTED.labels(reason).inc()
    EARLIER_KEYS_REJECTED.labels(compatibility.KEY_REJECTION_REASONS.get(reason, reason)).inc()


def count_dropped_rejections(count: int) -> None:
    REJECTIONS_DROPPED.inc(count)
    EARLIER_REJECTIONS_DROPPED.inc(count)
