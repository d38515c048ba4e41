"""Records each request: count, duration and log line.

Metrics are updated off the request path (see metrics.py). Their labels come from closed lists: routes of
the URL map and standard methods.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import orjson
from django.conf import settings
from django.http import HttpRequest

from petstore.observability import logs
from petstore.observability.log_writer import log_writer
from petstore.observability.metrics import REQUEST_SECONDS, REQUESTS, deferred_updates
from petstore.observability.redaction import redact

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
OTHER = "other"  # Any other method.
AS_LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
UNKNOWN = "unknown"  # No pattern, or one that matches any path.

# `next` is atomic, so no lock is needed; see `in_flight`.
started = count()
finished = count()


class Caller(Protocol):
    @property
    def account_id(self) -> int: ...

    @property
    def public_id(self) -> str: ...


class RequestContext(Protocol):
    id: str
    client: str

    @property
    def caller(self) -> Caller | None:
        """None without a valid key."""


class HasStatus(Protocol):
    status_code: int


ResponseT = TypeVar("ResponseT", bound=HasStatus)


class RequestMetrics(NamedTuple):
    route: str
    method: str
    record: Callable[[float], None]  # Takes the duration in seconds.


_metrics: dict[tuple[str | None, str | None, int], RequestMetrics] = {}


class InstrumentedHandler(Generic[ResponseT]):
    def __init__(self, get_response: Callable[[HttpRequest], ResponseT]) -> None:
        self._get_response = get_response
        self._write = WRITE_REQUEST[settings.LOG_FORMAT] if settings.ACCESS_LOG else None

    def __call__(self, request: HttpRequest, context: RequestContext) -> ResponseT:
        start = perf_counter()
        next(started)
        token = logs.request_id.set(context.id)
        try:
            response = self._get_response(request)
        finally:
            logs.request_id.reset(token)
            next(finished)
        seconds = perf_counter() - start
        status = response.status_code
        metrics = metrics_of(request, status)
        deferred_updates.add(metrics.record, seconds)
        if self._write is not None:  # The only client input is the well-formed request id.
            caller = context.caller
            self._write(
                {
                    "level": "info" if status < 500 else "error",
                    "event": "request",
                    "request_id": context.id,
                    "account": caller.account_id if caller else None,
                    "key": caller.public_id if caller else None,
                    "method": metrics.method,
                    "route": metrics.route,
                    "status": status,
                    "ms": round(seconds * 1000, 3),
                    "client": context.client,
                }
            )
        return response


def request_as_json(fields: dict[str, Any]) -> None:
    line = orjson.dumps({"time": datetime.now(UTC), **fields}, option=AS_LINE)
    log_writer.write(line if b"psk_" not in line else redact(line.decode()).encode())


def request_as_text(fields: dict[str, Any]) -> None:
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    rest = dict(fields)
    start = f"{time} {rest.pop('level'):<8} {rest.pop('method')} {rest.pop('route')} {rest.pop('status')}"
    del rest["event"]
    pairs = "".join(f" {name}={value}" for name, value in rest.items() if value is not None)
    log_writer.write(redact(f"{start}{pairs}\n").encode())


WRITE_REQUEST = {"json": request_as_json, "text": request_as_text}


def metrics_of(request: HttpRequest, status: int) -> RequestMetrics:
    match = request.resolver_match
    pattern = match.route if match is not None else unmatched(request.path_info)
    method = request.method if request.method in METHODS else OTHER
    metrics = _metrics.get((pattern, method, status))
    if metrics is None:
        metrics = _metrics[pattern, method, status] = make_metrics(pattern, method or OTHER, status)
    return metrics


def make_metrics(pattern: str | None, method: str, status: int) -> RequestMetrics:
    route = route_of(pattern)
    counter, timer = REQUESTS.labels(route, method, str(status)), REQUEST_SECONDS.labels(route, method)

    def record(seconds: float) -> None:
        counter.inc()
        timer.observe(seconds)

    return RequestMetrics(route, method, record)


def unmatched(path: str) -> str | None:
    """Return a pattern for a response that was made before URL resolution."""
    return settings.STATIC_URL.lstrip("/") if path.startswith(settings.STATIC_URL) else None


def route_of(pattern: str | None) -> str:
    """Convert a URL pattern to the form of the API's documentation: /v1/pets/{petId}."""
    if pattern is None or "^" in pattern or "(?P" in pattern:
        return UNKNOWN
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern)


def in_flight() -> int:
    """Return the number of requests in progress in this process.

    Reading a counter increments it. Both are read equally often, so the difference stays correct.
    """
    return max(0, next(started) - next(finished))
