"""Reads request bodies.

A body is read completely before its request is served, so a slow client occupies neither a thread nor a
greenlet. If an API request's body fails to arrive, reading it in the view raises its ApiError. This way the
key is still checked first (D17), and the Error is counted and formatted like any other.

The memory for bodies is bounded per worker. The number of connections limits small bodies, a `MemoryBudget`
(body_limits.py) limits larger ones, and the number of concurrent requests limits complete ones.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from contextlib import suppress
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from petstore.api.errors import ApiError, ErrorCode
from petstore.observability.request_ids import get_request_id
from petstore.server import shutdown
from petstore.server.body_limits import MemoryBudget, body_budget, body_timeouts

BODILESS_METHODS = {"GET", "HEAD", "DELETE", "TRACE", "CONNECT"}
SMALL_BODY = 4 * 1024  # Bytes. Bodies up to this size need no memory budget.
MAX_DISCARDED = 2 * 1024 * 1024  # Bytes that are read after the response to a rejected body.
MAX_PARTS = 1_000  # Per body, plus one for each KiB received.
MIN_PART_COST = 1024  # Bytes. `discard` counts smaller parts as this size.

INCOMPLETE = (
    "The body is incomplete, or it has trailers, which the service does not accept. Send the complete body "
    "again, without trailers."
)
TOO_MANY_PARTS = "The body arrived in too many small parts. Send it in larger parts."
CLOSE_CONNECTION = {"Connection": "close"}  # RFC 9110 section 15.5.9


class Body(NamedTuple):
    content: bytes = b""
    error: ApiError | None = None

    def read(self) -> bytes:
        """Return the content. Raises ApiError for a body that failed to arrive."""
        if self.error is not None:
            raise self.error
        return self.content

    @property
    def length(self) -> int:
        """The number of bytes, or 1 for a body that failed to arrive, so that views read it."""
        return len(self.content) if self.error is None else 1


class Exchange:
    """Holds granian's protocol object for the duration of a request.

    After an incomplete body, granian closes the connection once the last reference to the protocol is gone.
    Frames can outlive the request, for instance in a traceback. They therefore refer to the exchange, and
    `close` drops the only reference.
    """

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol

    def close(self) -> None:
        self.protocol = None


class BodyParts:
    """Iterates over a body in the parts in which it arrives. Iteration may be interrupted and resumed."""

    def __init__(self, exchange: Exchange) -> None:
        aiter(exchange.protocol)  # granian allows one call, which returns the protocol itself.
        self._exchange = exchange

    def __aiter__(self) -> "BodyParts":
        return self

    def __anext__(self) -> Awaitable[bytes]:
        part: Awaitable[bytes] = self._exchange.protocol.__anext__()
        return part


EMPTY_BODY = Body()


def handle_sigterm(loop: asyncio.AbstractEventLoop) -> None:
    """On SIGTERM, shorten the deadlines of bodies in transit and stop the worker.

    granian does not expose its signal handlers. This handler replaces the one of SIGTERM and sends SIGINT,
    whose handler stops the worker. The third call of granian's handler would block the whole process, so it
    must get one signal only, although the worker can get several and uvloop may report one twice. granian
    waits for all connections, so the loop also ends after STOP_SECONDS.
    """

    @cache  # Later signals change nothing.
    def stop() -> None:
        body_timeouts.shut_down()
        loop.call_later(shutdown.STOP_SECONDS, sys.exit)
        # SIGINT is blocked in a worker, so this one merges with any that a terminal has sent.
        os.kill(os.getpid(), signal.SIGINT)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.call_soon(signal.pthread_sigmask, signal.SIG_UNBLOCK, shutdown.SIGTERM)


def parse_content_length(scope: Any) -> int | None:
    """Return the Content-Length, or None for a chunked body. granian rejects malformed values."""
    if "transfer-encoding" in scope.headers:
        return None
    return int(scope.headers.get("content-length", "0"))


async def read(
    content_length: int | None, parts: BodyParts, limit: int, budget: MemoryBudget = body_budget
) -> Body:
    """Read a body of at most `limit` bytes within the client's deadline. The Body stores any error."""
    if content_length is not None and content_length > limit:
        return Body(error=ApiError(ErrorCode.PAYLOAD_TOO_LARGE))
    size = limit if content_length is None else content_length
    try:
        async with body_timeouts.start() as deadline:
            try:
                if size > SMALL_BODY:
                    await budget.acquire(deadline, size)
                content = await collect(parts, limit, content_length)
            finally:
                budget.release(deadline)
    except TimeoutError:
        return Body(error=ApiError(ErrorCode.REQUEST_TIMEOUT, headers=CLOSE_CONNECTION))
    except ApiError as error:
        return Body(error=error)
    if content_length is not None and len(content) != content_length:
        return Body(error=ApiError(ErrorCode.MALFORMED_JSON, INCOMPLETE))
    return Body(content)


async def collect(parts: BodyParts, limit: int, content_length: int | None = None) -> bytes:
    """Join the parts of a body. Raises ApiError.

    granian ends a body without Content-Length with an empty part. An additional empty part before it stands
    for a connection error, a malformed chunk or trailers, which are not supported.
    """
    body, empty_count, count = BytesIO(), 0, 0
    async for part in parts:
        empty_count += not part
        if empty_count > 1:
            raise ApiError(ErrorCode.MALFORMED_JSON, INCOMPLETE)
        count += bool(part)
        body.write(part)
        if body.tell() > limit:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE)
        if count > MAX_PARTS + body.tell() // MIN_PART_COST:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE, TOO_MANY_PARTS)
        if body.tell() == content_length:  # Don't wait for the final empty part.
            break
    return body.getvalue()


async def discard(parts: BodyParts, error: ApiError, limit: int = MAX_DISCARDED) -> None:
    """Read and drop the rest of a rejected body, up to `limit` bytes.

    Otherwise the connection would be reset while the client is still sending, and the client would never
    see the response.
    """
    if error.code is ErrorCode.REQUEST_TIMEOUT:
        return
    remaining = limit
    with suppress(TimeoutError, StopAsyncIteration):
        async with body_timeouts.start():
            while remaining > 0:
                remaining -= max(MIN_PART_COST, len(await anext(parts)))


def build_plain_error(scope: Any, error: ApiError) -> tuple[int, list[tuple[str, str]], str]:
    headers = {name.lower(): value for name, value in error.headers.items()}
    headers |= {"content-type": "text/plain", "connection": "close"}
    headers["x-request-id"] = get_request_id(scope.headers.get("x-request-id", ""))
    return error.status_code, list(headers.items()), f"{PAGE_ERRORS[error.code]}\n"


PAGE_ERRORS = {
    ErrorCode.METHOD_NOT_ALLOWED: "This server is no proxy.",
    ErrorCode.RATE_LIMIT_EXCEEDED: "Your network is sending too many forms at once. Try again.",
    ErrorCode.REQUEST_TIMEOUT: "The request body did not arrive in time. Send the form again.",
    ErrorCode.MALFORMED_JSON: "The request body is incomplete. Send the form again.",
}
