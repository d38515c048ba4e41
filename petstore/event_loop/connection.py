"""The base class of the event loop's connections, which owns the queue of pending replies.

A closed connection is never reopened, but replaced by a new object. Requests on a closed connection fail,
so a reply can only reach the request that it belongs to. On a shared connection, all requests of one loop
iteration are sent in one write.

Timeouts count ticks of the loop instead of reading the clock, so that a process that was suspended does not
mistake its own pause for an unresponsive server.

Two rules keep uvloop from crashing. Only the loop itself adds or removes readers and writers, and no
request is resumed inside a timer's callback. While a request runs, greenlet has moved the loop's part of
the C stack away, where libuv keeps its lists of sockets and timers.
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
    """The server can't be reached, did not respond in time, or became a standby."""


class ConnectionClosedError(ConnectionFailedError):
    """The connection closed before the request was sent or before its reply arrived."""


class Receiver(Protocol):
    """The receiver of a reply, usually a RequestTask."""

    def switch(self, result: Any) -> Any: ...

    def throw(self, error: ConnectionFailedError) -> Any: ...


class Connection(ABC):
    """Sends requests in order and matches replies to them by that order."""

    def __init__(self, timeout: float, *, batched: bool = False) -> None:
        """Set the timeout of a reply in seconds, and whether to send only once per loop iteration."""
        self.error: ConnectionFailedError | None = None  # The reason for closing, once closed.
        self._batched = batched
        self._flush_is_due = False
        self._timeout_ticks = timeout_in_ticks(timeout)
        self._now = 0  # In ticks.
        # Each receiver, or None (also after its timeout), with the tick at which it was queued.
        self._queue: deque[tuple[Receiver | None, int]] = deque()
        self._sent_count = 0  # The number of requests in the queue that have been sent.
        self._head_since = 0  # The tick since which the head of the queue has been waiting.
        self._loop = asyncio.get_running_loop()
        self._next_tick: asyncio.TimerHandle | None = None

    def _start_clock(self) -> None:
        self._next_tick = self._loop.call_later(TICK, self._tick)

    @abstractmethod
    def _flush(self) -> None:
        """Send the buffered requests. Any exception closes the connection."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the socket if there is one. The loop calls this once."""

    @abstractmethod
    def _is_unavailable(self) -> bool:
        """Return whether the monitor finds the server unavailable."""

    @abstractmethod
    def _read(self) -> None:
        """Read input, of which the loop may not have been notified."""

    def round_trip(self, put: Callable[..., object], *arguments: Any) -> Any:
        """Buffer a request by calling `put`, and wait for its reply.

        Only requests on the loop may call this. Raises ConnectionFailedError.
        """
        self._enqueue(current_task(), put, *arguments)
        if not self._batched:
            self._send()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._send)
        return pause()

    def fail(self, error: ConnectionFailedError) -> None:
        """Accept no more requests. The loop then disconnects and fails the pending ones."""
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

    def _enqueue(self, receiver: Receiver | None, put: Callable[..., object], *arguments: Any) -> None:
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
        if not self._sent_count:
            self._head_since = self._now
        self._sent_count = len(self._queue)

    def _resolve_next(self, reply: Any) -> None:
        receiver, _ = self._queue.popleft()
        self._sent_count -= 1
        self._head_since = self._now
        if receiver is not None:
            receiver.switch(reply)

    def _tick(self) -> None:
        self._now += 1
        if self._sent_count and (
            self._is_unavailable() or self._now - self._head_since >= self._timeout_ticks
        ):
            self.fail(ConnectionFailedError(TIMED_OUT))
            return
        self._next_tick = self._loop.call_later(TICK, self._tick)
        if self._sent_count:
            self._loop.call_soon(self._expire)
            self._loop.call_soon(self._read)

    def _expire(self) -> None:
        """Fail requests whose replies are late, but keep their places for replies that still arrive."""
        for index in range(self._sent_count if self.error is None else 0):
            receiver, queued_at = self._queue[index]
            if self._now - queued_at < self._timeout_ticks:
                break
            if receiver is not None:
                self._queue[index] = None, queued_at
                receiver.throw(ConnectionFailedError(TIMED_OUT))


async def with_timeout(seconds: float, awaitable: Awaitable[Result]) -> Result:
    """Await, or cancel the awaitable and raise TimeoutError.

    The timeout excludes time for which the process was suspended.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        for _ in range(timeout_in_ticks(seconds)):
            await asyncio.wait([task], timeout=TICK)
            if task.done():
                return task.result()
    finally:
        task.cancel()
    raise TimeoutError(f"The operation took longer than {seconds} seconds.")
