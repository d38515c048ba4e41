"""Bodies are read before their requests are served, so slow clients hold nobody up.

Where a body is not there, because it was too large, too slow or cut, whoever reads it gets its Error. So
the key still comes first (D17), and the Error is counted and shaped like any other.

What bodies hold in a worker's memory is bounded whatever clients do: the small ones by the number of
connections (8,000 times 4 KiB), the other bodies by a `Room` (bounds.py), what is whole by the requests
under way.
"""

import asyncio
import signal
from collections.abc import Awaitable
from contextlib import suppress
from io import BytesIO
from typing import Any, NamedTuple

from petstore.api.errors import ApiError, ErrorCode
from petstore.observability.request_ids import request_id
from petstore.server import shutdown
from petstore.server.body_limits import MemoryBudget, body_budget, body_timeouts

BODILESS_METHODS = {"GET", "HEAD", "DELETE", "TRACE", "CONNECT"}
SMALL_BODY = 4 * 1024  # Bytes that any client may send unasked; most bodies of the API have a few hundred.
MAX_DISCARDED = 2 * 1024 * 1024  # Bytes that a client may send after its answer, before it is cut off.
MAX_PARTS = 1_000  # Of a body, and one more for each KiB that has come.
MIN_PART_COST = 1024  # Bytes that a part counts as when it is smaller: the work is for each part.

CUT = (
    "The body did not arrive whole: it ended before its length or its last chunk, or has trailers, which "
    "the service does not accept. Send it again, whole and without trailers."
)
TOO_MANY_PARTS = "The body came in too many parts. Send larger ones."
CLOSE = {"Connection": "close"}  # RFC 9110 section 15.5.9.


class Body(NamedTuple):
    """The body of a request, as far as anybody reads it."""

    content: bytes
    error: ApiError | None = None  # What reading it raises.

    def read(self) -> bytes:
        """Return it, each time. Raises ApiError."""
        if self.error is not None:
            raise self.error
        return self.content

    @property
    def length(self) -> int:
        """How many bytes there are to read: one, if that raises the Error."""
        return len(self.content) if self.error is None else 1


class Exchange:
    """The server's side of a request, for as long as the request lasts.

    granian closes the connection of a client that hasn't sent all of its body once nobody holds its
    protocol. It tries earlier, when a request returns, but only once, and in vain while a read that was
    cancelled is still ending in another thread. So what may outlive a request, as its frames do when an
    exception keeps them until the garbage collector comes, holds this and not the protocol.
    """

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol

    def end(self) -> None:
        self.protocol = None


class Parts:
    """The parts of a body as they come. Reading may stop in the middle and continue later."""

    def __init__(self, exchange: Exchange) -> None:
        aiter(exchange.protocol)  # granian's can be had once, and returns itself.
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
    """Let SIGTERM end the time of clients that are sending, and then stop the worker, which waits for them.

    granian has handlers of its own for SIGTERM and SIGINT, which do the same and can't be had. This one
    takes the first's place, and leads to the second, which a worker otherwise leaves to its parent.
    """

    def stop() -> None:
        body_timeouts.end()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.raise_signal(signal.SIGINT)

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.call_soon(shutdown.unblock_sigterm)


def declared_length(scope: Any) -> int | None:
    """Return the Content-Length, or None for a body in chunks. The server has refused what is no number."""
    if "transfer-encoding" in scope.headers:
        return None
    return int(scope.headers.get("content-length", "0"))


async def read(declared: int | None, parts: Parts, most: int, room: MemoryBudget = body_budget) -> Body:
    """Return a body of this length in bytes, or any up to `most`; or what raises why it is not there."""
    if declared is not None and declared > most:
        return failed_body(ApiError(ErrorCode.PAYLOAD_TOO_LARGE))
    size = most if declared is None else declared
    try:
        async with body_timeouts.limit() as deadline:
            try:
                if size > SMALL_BODY:
                    await room.take(deadline, size)
                content = await collect(parts, most, declared)
            finally:
                room.leave(deadline)
    except TimeoutError:
        return failed_body(ApiError(ErrorCode.REQUEST_TIMEOUT, headers=CLOSE))
    except ApiError as error:
        return failed_body(error)
    if declared is not None and len(content) != declared:
        return failed_body(ApiError(ErrorCode.MALFORMED_JSON, CUT))
    return Body(content)


async def collect(parts: Parts, most: int, declared: int | None = None) -> bytes:
    """Return the parts as one. Raises ApiError.

    A body is whole once it is as long as was declared. Else granian ends it with an empty part; before that
    one, another empty part stands for an error of the connection or of the chunks, which it doesn't raise.
    Trailers look the same: nobody here takes any.
    """
    body, empty, count = BytesIO(), 0, 0
    async for part in parts:
        empty += not part
        if empty > 1:
            raise ApiError(ErrorCode.MALFORMED_JSON, CUT)
        count += bool(part)
        body.write(part)
        if body.tell() > most:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE)
        if count > MAX_PARTS + body.tell() // MIN_PART_COST:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE, TOO_MANY_PARTS)
        if body.tell() == declared:  # To wait for the end as well would cost a small request a tenth.
            break
    return body.getvalue()


async def discard(parts: Parts, error: ApiError, most: int = MAX_DISCARDED) -> None:
    """Take what still comes of a body that was answered with this Error, up to `most` bytes; keep nothing.

    A client that is sending would otherwise find the connection reset, and never see its answer. Who has
    had its time gets no more.
    """
    if error.error is ErrorCode.REQUEST_TIMEOUT:
        return
    left = most
    with suppress(TimeoutError, StopAsyncIteration):
        async with body_timeouts.limit():
            while left > 0:
                left -= max(MIN_PART_COST, len(await anext(parts)))


def plain_error(scope: Any, error: ApiError) -> tuple[int, list[tuple[str, str]], str]:
    """Return the plain answer to a body that no page can take."""
    headers = [("content-type", "text/plain"), ("connection", "close")]
    headers.append(("x-request-id", request_id(scope.headers.get("x-request-id", ""))))
    return error.status_code, headers, f"{PAGE_ERRORS[error.error]}\n"


PAGE_ERRORS = {
    ErrorCode.REQUEST_TIMEOUT: "The body did not come in time.",
    ErrorCode.MALFORMED_JSON: "The body did not arrive whole.",
}
