"""Measures each request: counts it by route, method and status, times it, and writes its line.

The numbers are raised behind the request: see metrics.py. The labels come from closed lists, whatever
clients send: patterns of the URL map, methods of the standard.
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
from petstore.observability.metrics import REQUEST_SECONDS, REQUESTS, behind
from petstore.observability.output import output
from petstore.observability.redaction import redact

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
OTHER = "other"  # Any other method.
AS_LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
UNKNOWN = "unknown"  # Whatever no pattern knows, or a pattern that takes any path.

# Calling `next` on one is atomic, so no lock is needed; see `in_flight`.
begun = count()
ended = count()


class Caller(Protocol):
    """Who has proved a key."""

    @property
    def account_id(self) -> int:
        """The account's number."""

    @property
    def public_id(self) -> str:
        """The key's public id."""


class RequestContext(Protocol):
    """What the line says of who has asked."""

    id: str
    client: str

    @property
    def caller(self) -> Caller | None:
        """None without a valid key."""


class Answered(Protocol):
    """What the line says of an answer: Django's are such, and the API's."""

    status_code: int


Answer = TypeVar("Answer", bound=Answered)


class Kind(NamedTuple):
    route: str
    method: str
    measure: Callable[[float], None]  # Takes the seconds that one took.


_kinds: dict[tuple[str | None, str | None, int], Kind] = {}


class Measured(Generic[Answer]):
    """Answers requests with a function, and tells of each."""

    def __init__(self, answer: Callable[[HttpRequest], Answer]) -> None:
        self._answer = answer
        self._write = WRITE_REQUEST[settings.LOG_FORMAT] if settings.ACCESS_LOG else None

    def __call__(self, request: HttpRequest, context: RequestContext) -> Answer:
        start = perf_counter()
        next(begun)
        token = logs.request_id.set(context.id)
        try:
            response = self._answer(request)
        finally:
            logs.request_id.reset(token)
            next(ended)
        seconds = perf_counter() - start
        status = response.status_code
        kind = kind_of(request, status)
        behind.add(kind.measure, seconds)
        if self._write is not None:  # Nothing that a client wrote but its well-formed request id.
            caller = context.caller
            self._write(
                {
                    "level": "info" if status < 500 else "error",
                    "event": "request",
                    "request_id": context.id,
                    "account": caller.account_id if caller else None,
                    "key": caller.public_id if caller else None,
                    "method": kind.method,
                    "route": kind.route,
                    "status": status,
                    "ms": round(seconds * 1000, 3),
                    "client": context.client,
                }
            )
        return response


def request_as_json(fields: dict[str, Any]) -> None:
    line = orjson.dumps({"time": datetime.now(UTC), **fields}, option=AS_LINE)
    output.write(line if b"psk_" not in line else redact(line.decode()).encode())


def request_as_text(fields: dict[str, Any]) -> None:
    """Write the line of a request for people."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = dict(fields)
    start = f"{time} {told.pop('level'):<8} {told.pop('method')} {told.pop('route')} {told.pop('status')}"
    del told["event"]
    rest = "".join(f" {name}={value}" for name, value in told.items() if value is not None)
    output.write(redact(f"{start}{rest}\n").encode())


WRITE_REQUEST = {"json": request_as_json, "text": request_as_text}


def kind_of(request: HttpRequest, status: int) -> Kind:
    match = request.resolver_match
    pattern = match.route if match is not None else unmatched(request.path_info)
    method = request.method if request.method in METHODS else OTHER
    kind = _kinds.get((pattern, method, status))
    if kind is None:
        kind = _kinds[pattern, method, status] = make_kind(pattern, method or OTHER, status)
    return kind


def make_kind(pattern: str | None, method: str, status: int) -> Kind:
    """Return a kind with its counters, which cost as much to find as to raise."""
    route = route_of(pattern)
    counter, timer = REQUESTS.labels(route, method, str(status)), REQUEST_SECONDS.labels(route, method)

    def measure(seconds: float) -> None:
        counter.inc()
        timer.observe(seconds)

    return Kind(route, method, measure)


def unmatched(path: str) -> str | None:
    """Return a pattern for what was answered before the URL map was asked."""
    return settings.STATIC_URL.lstrip("/") if path.startswith(settings.STATIC_URL) else None


def route_of(pattern: str | None) -> str:
    """Return a URL pattern as the API's documentation writes it: /v1/pets/{petId}."""
    if pattern is None or "^" in pattern or "(?P" in pattern:
        return UNKNOWN
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern)


def in_flight() -> int:
    """Return how many requests of this process are being answered.

    Reading a counter takes one from it, so both lose the same.
    """
    return max(0, next(begun) - next(ended))
