"""A connection of the event loop: it lives once, and owns those who wait for its answers.

It is open, then it is lost, and never comes back: another connection is another object. Whoever asks a
lost one gets an error, so nobody can wait in a queue that no answer will reach, or in somebody else's.
Where many share a connection, what they ask in one turn of the loop leaves in one write.

Time is counted in ticks of the loop, not by the clock: a process that stood still blames nobody for it.

Two rules keep uvloop alive. What the loop watches is changed by the loop alone, never by a request; and
no request goes on inside the callback of a timer. A request runs with the loop's part of the C stack put
aside, and libuv keeps lists of sockets and of timers there (gevent has the same rules for its own loop).
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from petstore.event_loop.greenlets import TICK, pause, this_turn, ticks

Result = TypeVar("Result")

TOO_LATE = "No answer came in time."


class PipeError(Exception):
    """The other side can't be reached, or did not answer in time."""


class LostError(PipeError):
    """The connection was lost while an answer was under way, or before the question left."""


class Waiter(Protocol):
    """Who gets an answer: a request, as a rule."""

    def switch(self, result: Any) -> Any: ...

    def throw(self, error: PipeError) -> Any: ...


class Answer(asyncio.Future[Any]):
    """A place in the queue for a coroutine."""

    def switch(self, result: Any) -> None:
        """Take the answer, unless nobody waits for it any more."""
        if not self.done():
            self.set_result(result)

    def throw(self, error: PipeError) -> None:
        """Take the exception, unless nobody waits any more."""
        if not self.done():
            self.set_exception(error)


class Connection(ABC):
    """Questions go out in order, and the answers come in that order."""

    def __init__(self, limit: float, *, gathers: bool = False) -> None:
        """`limit`: seconds that an answer may take. `gathers`: a turn's questions leave together."""
        self.error: PipeError | None = None  # Why it is lost.
        self._gathers = gathers
        self._flush_is_due = False
        self._patience = ticks(limit)
        self._now = 0  # In ticks.
        self._row: deque[tuple[Waiter | None, int]] = deque()  # Who waits, or has stopped; since when.
        self._sent = 0  # How many of them have asked; the others' questions have not left.
        self._moved = 0  # When the first of them came to the head of the queue.
        self._loop = asyncio.get_running_loop()
        self._next_tick: asyncio.TimerHandle | None = None

    def _begin(self) -> None:
        """Count the time from now on: it is open, or being opened."""
        self._next_tick = self._loop.call_later(TICK, self._tick)

    @abstractmethod
    def _flush(self) -> None:
        """Send what was put since the last time. May raise anything: the connection is lost then."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close what is open, or half open; nothing may be. The loop calls it, once."""

    def _is_away(self) -> bool:
        return False

    def _look(self) -> None:  # noqa: B027  Most connections hear all that comes.
        """Read what has come, if the loop may have missed it."""

    @property
    def is_of_use(self) -> bool:
        """Whether it is worth asking. It may be lost the next moment, and then says so to who asks."""
        return self.error is None

    def ask(self, put: Callable[..., object], *arguments: Any) -> Any:
        """Put a question by calling `put`, and return its answer; for a request on the loop.

        Raises LostError, or PipeError if no answer came in time.
        """
        self._enter(this_turn(), put, *arguments)
        if not self._gathers:
            self._send()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._send)
        return pause()

    def lose(self, error: PipeError) -> None:
        """End it at once; what is open is closed, and everybody who waits is told, by the loop.

        A request may cause this while it runs, and only the loop can make another one go on.
        """
        if self.error is None:
            self.error = error
            if self._next_tick is not None:
                self._next_tick.cancel()
            self._loop.call_soon(self._end, error)

    def _end(self, error: PipeError) -> None:
        """Disconnect, and give everybody in the queue an exception of their own."""
        try:
            self._disconnect()
        finally:
            while self._row:
                waiter, _ = self._row.popleft()
                if waiter is not None:
                    waiter.throw(type(error)(*error.args))

    def close(self) -> None:
        self.lose(LostError("It was closed."))

    def _enter(self, waiter: Waiter, put: Callable[..., object], *arguments: Any) -> None:
        """Put a question, and take a place in the queue for its answer: both, or neither."""
        if self.error is not None:
            raise LostError(*self.error.args)
        try:
            put(*arguments)
        except Exception as error:
            self.lose(LostError(str(error)))
            raise LostError(str(error)) from error
        self._row.append((waiter, self._now))

    def _send(self) -> None:
        self._flush_is_due = False
        if self.error is not None:
            return
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001  Whatever it is, the connection can't be used again.
            self.lose(LostError(str(error)))
        if not self._sent:
            self._moved = self._now
        self._sent = len(self._row)

    def _answer(self, reply: Any) -> None:
        """Give the next answer to whoever has waited for it."""
        waiter, _ = self._row.popleft()
        self._sent -= 1
        self._moved = self._now
        if waiter is not None:
            waiter.switch(reply)

    def _tick(self) -> None:
        self._now += 1
        if self._sent and (self._is_away() or self._now - self._moved >= self._patience):
            self.lose(PipeError(TOO_LATE))
            return
        self._next_tick = self._loop.call_later(TICK, self._tick)
        if self._sent:
            self._loop.call_soon(self._let_go)
            self._loop.call_soon(self._look)

    def _let_go(self) -> None:
        """Tell those who have waited too long behind others; their places stay, for answers do come."""
        for place in range(self._sent if self.error is None else 0):
            waiter, since = self._row[place]
            if self._now - since < self._patience:
                break
            if waiter is not None:
                self._row[place] = None, since
                waiter.throw(PipeError(TOO_LATE))


async def within(seconds: float, awaitable: Awaitable[Result]) -> Result:
    """Return its result. Raises TimeoutError after that many seconds of the loop, and cancels it."""
    task = asyncio.ensure_future(awaitable)
    try:
        for _ in range(ticks(seconds)):
            await asyncio.wait([task], timeout=TICK)
            if task.done():
                return task.result()
    finally:
        task.cancel()
    message = f"It took longer than {seconds} seconds."
    raise TimeoutError(message)
