"""Reads request bodies.

A body is read completely before its request is served, so a slow client occupies neither a thread nor a
greenlet. If an API request's body fails to arrive, reading it in the view raises its ApiError. This way the
key is still checked first (D17), and the Error is counted and formatted like any other.

The memory for bodies is bounded per worker. The number of connections limits small bodies, a `MemoryBudget`
(body_limits.py) limits larger ones, and the number of concurrent requests limits complete ones.
"""

from collections.abc import Awaitable
from contextlib import suppress
from io import BytesIO
from typing import Any, NamedTuple

from petstore.api.errors import ApiError, ErrorCode
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
    """A request and its response: granian's protocol object, and an iterator over the parts of the body.

    Iteration may be interrupted and resumed. After an incomplete body, granian closes the connection once
    the last reference to the protocol is gone. Frames can outlive the request, for instance in a traceback.
    They therefore refer to the exchange, and `close` drops the only reference.
    """

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self._is_reading = False

    def __aiter__(self) -> "Exchange":
        return self

    def __anext__(self) -> Awaitable[bytes]:
        if not self._is_reading:
            self._is_reading = True
            aiter(self.protocol)  # granian allows one call, which returns the protocol itself.
        part: Awaitable[bytes] = self.protocol.__anext__()
        return part

    def close(self) -> None:
        self.protocol = None


EMPTY_BODY = Body()


def parse_content_length(scope: Any) -> int | None:
    """Return the Content-Length, or None for a chunked body. granian rejects malformed values."""
    if "transfer-encoding" in scope.headers:
        return None
    return int(scope.headers.get("content-length", "0"))


async def read(
    content_length: int | None, exchange: Exchange, limit: int, budget: MemoryBudget = body_budget
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
                content = await collect(exchange, limit, content_length)
            finally:
                budget.release(deadline)
    except TimeoutError:
        return Body(error=ApiError(ErrorCode.REQUEST_TIMEOUT, headers=CLOSE_CONNECTION))
    except ApiError as error:
        return Body(error=error)
    if content_length is not None and len(content) != content_length:
        return Body(error=ApiError(ErrorCode.MALFORMED_JSON, INCOMPLETE))
    return Body(content)


async def collect(exchange: Exchange, limit: int, content_length: int | None = None) -> bytes:
    """Join the parts of a body. Raises ApiError.

    granian ends a body without Content-Length with an empty part. An additional empty part before it stands
    for a connection error, a malformed chunk or trailers, which are not supported.
    """
    body, empty_count, count = BytesIO(), 0, 0
    async for part in exchange:
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


async def discard(exchange: Exchange, error: ApiError, limit: int = MAX_DISCARDED) -> None:
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
                remaining -= max(MIN_PART_COST, len(await anext(exchange)))
