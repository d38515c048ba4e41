"""Reading request bodies.

A body is read completely before its request is served, so a slow client occupies neither a thread nor a
greenlet. Reading a body that failed to arrive raises its ApiError. That way the key is still checked first
(D17), and the Error is counted and formatted like any other.

The memory for bodies is bounded per worker: small ones by the number of connections, larger ones by a
`MemoryBudget` (body_limits.py), complete ones by the number of concurrent requests.
"""

import asyncio
import signal
from collections.abc import Awaitable
from contextlib import suppress
from io import BytesIO
from typing import Any, NamedTuple

from petstore.api.errors import ApiError, ErrorCode
from petstore.observability.request_ids import get_request_id
from petstore.server import shutdown
from petstore.server.body_limits import MemoryBudget, body_budget, body_timeouts

BODILESS_METHODS = {"GET", "HEAD", "DELETE", "TRACE", "CONNECT"}
SMALL_BODY = 4 * 1024  # Bytes; these bodies need no memory budget.
MAX_DISCARDED = 2 * 1024 * 1024  # Bytes that a client may still send after its response.
MAX_PARTS = 1_000  # Per body, plus one for each KiB received.
MIN_PART_COST = 1024  # Bytes that smaller parts count as in `discard`.

CUT = (
    "The body did not arrive whole: it ended before its length or its last chunk, or has trailers, which "
    "the service does not accept. Send it again, whole and without trailers."
)
TOO_MANY_PARTS = "The body came in too many parts. Send larger ones."
CLOSE = {"Connection": "close"}  # RFC 9110 section 15.5.9.


class Body(NamedTuple):
    content: bytes
    error: ApiError | None = None

    def read(self) -> bytes:
        """Return the content. Raises ApiError for a body that failed to arrive."""
        if self.error is not None:
            raise self.error
        return self.content

    @property
    def length(self) -> int:
        """The number of bytes to read; 1 if reading raises."""
        return len(self.content) if self.error is None else 1


class Exchange:
    """Holds granian's protocol object for the duration of a request.

    granian closes the connection of a client with an incomplete body once the last reference to its
    protocol is gone. Frames can outlive the request, for instance in a traceback, so they refer to the
    exchange and `end` drops the reference.
    """

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol

    def end(self) -> None:
        self.protocol = None


class Parts:
    """The chunks of a body. Iteration may be interrupted and resumed."""

    def __init__(self, exchange: Exchange) -> None:
        aiter(exchange.protocol)  # The iterator can be created only once and returns itself.
        self._exchange = exchange

    def __aiter__(self) -> "Parts":
        return self

    def __anext__(self) -> Awaitable[bytes]:
        part: Awaitable[bytes] = self._exchange.protocol.__anext__()
        return part


EMPTY_BODY = Body(b"")


def failed_body(error: ApiError) -> Body:
    return Body(b"", error)


def handle_sigterm(loop: asyncio.AbstractEventLoop) -> None:
    """On SIGTERM, shorten the deadlines of bodies in transit and then stop the worker.

    granian's own handlers are not accessible. This one replaces that of SIGTERM and raises SIGINT, whose
    handler stops the worker.
    """

    def stop() -> None:
        body_timeouts.shut_down()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.raise_signal(signal.SIGINT)

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.call_soon(shutdown.unblock_sigterm)


def declared_length(scope: Any) -> int | None:
    """Get the Content-Length, or None for a chunked body. The server has rejected malformed ones."""
    if "transfer-encoding" in scope.headers:
        return None
    return int(scope.headers.get("content-length", "0"))


async def read(declared: int | None, parts: Parts, limit: int, budget: MemoryBudget = body_budget) -> Body:
    """Read a body of at most `limit` bytes within the client's deadline. Errors are stored in the Body."""
    if declared is not None and declared > limit:
        return failed_body(ApiError(ErrorCode.PAYLOAD_TOO_LARGE))
    size = limit if declared is None else declared
    try:
        async with body_timeouts.start() as deadline:
            try:
                if size > SMALL_BODY:
                    await budget.acquire(deadline, size)
                content = await collect(parts, limit, declared)
            finally:
                budget.release(deadline)
    except TimeoutError:
        return failed_body(ApiError(ErrorCode.REQUEST_TIMEOUT, headers=CLOSE))
    except ApiError as error:
        return failed_body(error)
    if declared is not None and len(content) != declared:
        return failed_body(ApiError(ErrorCode.MALFORMED_JSON, CUT))
    return Body(content)


async def collect(parts: Parts, limit: int, declared: int | None = None) -> bytes:
    """Join the parts of a body. Raises ApiError.

    granian ends a body without Content-Length with an empty part. An additional empty part before it stands
    for a connection error, a malformed chunk or trailers, which are not supported.
    """
    body, empty, count = BytesIO(), 0, 0
    async for part in parts:
        empty += not part
        if empty > 1:
            raise ApiError(ErrorCode.MALFORMED_JSON, CUT)
        count += bool(part)
        body.write(part)
        if body.tell() > limit:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE)
        if count > MAX_PARTS + body.tell() // MIN_PART_COST:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE, TOO_MANY_PARTS)
        if body.tell() == declared:  # Don't wait for the final empty part.
            break
    return body.getvalue()


async def discard(parts: Parts, error: ApiError, limit: int = MAX_DISCARDED) -> None:
    """Read and drop the rest of a rejected body, up to `limit` bytes.

    Otherwise the connection would be reset while the client is sending, and it would never see the
    response.
    """
    if error.code is ErrorCode.REQUEST_TIMEOUT:
        return
    left = limit
    with suppress(TimeoutError, StopAsyncIteration):
        async with body_timeouts.start():
            while left > 0:
                left -= max(MIN_PART_COST, len(await anext(parts)))


def plain_error(scope: Any, error: ApiError) -> tuple[int, list[tuple[str, str]], str]:
    headers = [("content-type", "text/plain"), ("connection", "close")]
    headers.append(("x-request-id", get_request_id(scope.headers.get("x-request-id", ""))))
    return error.status_code, headers, f"{PAGE_ERRORS[error.code]}\n"


PAGE_ERRORS = {
    ErrorCode.REQUEST_TIMEOUT: "The body did not come in time.",
    ErrorCode.MALFORMED_JSON: "The body did not arrive whole.",
}
