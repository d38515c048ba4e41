"""The base class of the event loop's connections, which owns the queue of pending replies.

A connection is open until it closes, and is never reopened: a new connection is a new object. Requests to a
closed one fail, so a reply can reach no one but the request that it belongs to. On a shared connection,
everything sent in one iteration of the loop leaves in one write.

Timeouts count ticks of the loop instead of the clock, so a process that was stopped does not blame the
server.

Two rules keep uvloop from crashing. Only the loop changes what it watches, never a request; and no request
is resumed inside a timer's callback. A request runs with the loop's part of the C stack moved aside, and
libuv keeps lists of sockets and timers there (gevent has the same rules for its loop).
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from petstore.event_loop.greenlets import TICK, current_task, pause, timeout_in_ticks

Result = TypeVar("Result")

TIMED_OUT = "The server did not respond in time."


class ConnectionFailedError(Exception):
    """The server can't be reached, or did not respond in time."""


class ConnectionClosedError(ConnectionFailedError):
    """The connection closed before the request was sent, or before its reply arrived."""


class Receiver(Protocol):
    """Receives a reply: usually a RequestTask."""

    def switch(self, result: Any) -> Any: ...

    def throw(self, error: ConnectionFailedError) -> Any: ...


class ReplyFuture(asyncio.Future[Any]):
    """A Receiver for coroutines."""

    def switch(self, result: Any) -> None:
        if not self.done():
            self.set_result(result)

    def throw(self, error: ConnectionFailedError) -> None:
        if not self.done():
            self.set_exception(error)


class Connection(ABC):
    """Sends requests in order and matches replies to them by that order."""

    def __init__(self, timeout: float, *, batched: bool = False) -> None:
        """`timeout`: seconds for a reply. `batched`: send once per loop iteration."""
        self.error: ConnectionFailedError | None = None  # Why it closed.
        self._batched = batched
        self._flush_is_due = False
        self._timeout_ticks = timeout_in_ticks(timeout)
        self._now = 0  # In ticks.
        self._queue: deque[tuple[Receiver | None, int]] = deque()  # None after a timeout; since when.
        self._sent = 0  # The length of the part of the queue that has been sent.
        self._head_since = 0
        self._loop = asyncio.get_running_loop()
        self._next_tick: asyncio.TimerHandle | None = None

    def _start_clock(self) -> None:
        self._next_tick = self._loop.call_later(TICK, self._tick)

    @abstractmethod
    def _flush(self) -> None:
        """Send what is buffered. Any exception closes the connection."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close what is open, if anything. The loop calls it once."""

    def _is_unavailable(self) -> bool:
        return False

    def _read(self) -> None:  # noqa: B027  Most connections are notified of all input.
        """Read input that the loop may have missed."""

    @property
    def is_usable(self) -> bool:
        return self.error is None

    def round_trip(self, put: Callable[..., object], *arguments: Any) -> Any:
        """Buffer a request by calling `put`, and wait for its reply; for a request on the loop.

        Raises ConnectionClosedError, or ConnectionFailedError after the timeout.
        """
        self._enqueue(current_task(), put, *arguments)
        if not self._batched:
            self._send()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._send)
        return pause()

    def fail(self, error: ConnectionFailedError) -> None:
        """Close at once. The loop fails the pending requests, since a request must not resume others."""
        if self.error is None:
            self.error = error
            if self._next_tick is not None:
                self._next_tick.cancel()
            self._loop.call_soon(self._shut_down, error)

    def _shut_down(self, error: ConnectionFailedError) -> None:
        try:
            self._disconnect()
        finally:
            while self._queue:
                receiver, _ = self._queue.popleft()
                if receiver is not None:
                    receiver.throw(type(error)(*error.args))

    def close(self) -> None:
        self.fail(ConnectionClosedError("The connection was closed."))

    def _enqueue(self, receiver: Receiver, put: Callable[..., object], *arguments: Any) -> None:
        """Buffer a request and queue its receiver: both or neither."""
        if self.error is not None:
            raise ConnectionClosedError(*self.error.args)
        try:
            put(*arguments)
        except Exception as error:
            self.fail(ConnectionClosedError(str(error)))
            raise ConnectionClosedError(str(error)) from error
        self._queue.append((receiver, self._now))

    def _send(self) -> None:
        self._flush_is_due = False
        if self.error is not None:
            return
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001  The connection is unusable after any failure.
            self.fail(ConnectionClosedError(str(error)))
        if not self._sent:
            self._head_since = self._now
        self._sent = len(self._queue)

    def _resolve_next(self, reply: Any) -> None:
        receiver, _ = self._queue.popleft()
        self._sent -= 1
        self._head_since = self._now
        if receiver is not None:
            receiver.switch(reply)

    def _tick(self) -> None:
        self._now += 1
        if self._sent and (self._is_unavailable() or self._now - self._head_since >= self._timeout_ticks):
            self.fail(ConnectionFailedError(TIMED_OUT))
            return
        self._next_tick = self._loop.call_later(TICK, self._tick)
        if self._sent:
            self._loop.call_soon(self._expire)
            self._loop.call_soon(self._read)

    def _expire(self) -> None:
        """Fail late requests behind others; their places stay, since replies will come."""
        for place in range(self._sent if self.error is None else 0):
            receiver, since = self._queue[place]
            if self._now - since < self._timeout_ticks:
                break
            if receiver is not None:
                self._queue[place] = None, since
                receiver.throw(ConnectionFailedError(TIMED_OUT))


async def with_timeout(seconds: float, awaitable: Awaitable[Result]) -> Result:
    """Await, or cancel it after that many seconds of the loop and raise TimeoutError."""
    task = asyncio.ensure_future(awaitable)
    try:
        for _ in range(timeout_in_ticks(seconds)):
            await asyncio.wait([task], timeout=TICK)
            if task.done():
                return task.result()
    finally:
        task.cancel()
    message = f"It took longer than {seconds} seconds."
    raise TimeoutError(message)
