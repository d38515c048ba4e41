"""Counts, times and logs each request.

The labels of metrics come from closed lists (routes, methods and statuses), so clients can't create new
time series.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import count
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from django.conf import settings
from django.http import HttpRequest

from petstore.observability import logs
from petstore.observability.metrics import METHODS, OTHER_METHOD, REQUEST_SECONDS, REQUESTS
from petstore.observability.request_log import RequestLog

UNKNOWN_ROUTE = "unknown"  # No URL pattern, or a regular expression.

# `next` is atomic, so no lock is needed; see `count_in_flight`.
started = count()
finished = count()


class HasStatus(Protocol):
    status_code: int


ResponseT = TypeVar("ResponseT", bound=HasStatus)


class RequestMetrics(NamedTuple):
    route: str
    method: str
    record: Callable[[float], None]  # Takes the duration in seconds.


class InstrumentedHandler(Generic[ResponseT]):
    def __init__(self, get_response: Callable[[HttpRequest], ResponseT]) -> None:
        self._get_response = get_response
        self._log = RequestLog()

    def __call__(self, request: HttpRequest, context: Any) -> ResponseT:
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
        metrics = get_request_metrics(request, status)
        metrics.record(seconds)
        self._log.write(context, metrics.method, metrics.route, status, seconds)
        return response


def get_request_metrics(request: HttpRequest, status: int) -> RequestMetrics:
    method = request.method
    if method not in METHODS:
        method = OTHER_METHOD
    return get_labelled_metrics(get_url_pattern(request), method, status)


def get_url_pattern(request: HttpRequest) -> str | None:
    """Return the URL pattern, STATIC_URL for a static file (its URL is not resolved), or None."""
    if request.resolver_match is not None:
        return request.resolver_match.route
    if request.path_info.startswith(settings.STATIC_URL):
        return settings.STATIC_URL.lstrip("/")
    return None


@cache  # Looking up the labels costs more than the update.
def get_labelled_metrics(pattern: str | None, method: str, status: int) -> RequestMetrics:
    route = format_route(pattern)
    counter = REQUESTS.labels(route, method, str(status))
    histogram = REQUEST_SECONDS.labels(route, method)

    def record(seconds: float) -> None:
        counter.inc()
        histogram.observe(seconds)

    return RequestMetrics(route, method, record)


def format_route(pattern: str | None) -> str:
    """Format a URL pattern as the API's documentation does: /v1/pets/{petId}."""
    if pattern is None or "^" in pattern or "(?P" in pattern:
        return UNKNOWN_ROUTE
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern)


def count_in_flight() -> int:
    """Count the requests in progress in this process.

    Reading a counter increments it. Both are read equally often, so the difference stays correct.
    """
    return max(0, next(started) - next(finished))
