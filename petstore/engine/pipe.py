"""A connection of the event loop. Where many share it, what they ask in one turn leaves in one write.

What each of these steps gains is in README.md of tests/load.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from time import monotonic
from typing import Any, Protocol

from django.conf import settings
from greenlet import getcurrent

from petstore.engine.waiting import pause, wait

CHECK_EVERY = 0.1  # Seconds between two looks at who waits longest.
PAUSE_AFTER_FAILURE = 0.5  # Seconds in which nobody tries again to connect.


class PipeError(Exception):
    """The other side can't be reached, or did not answer in time."""


class LostError(PipeError):
    """The connection was lost while an answer was under way."""


class Waiter(Protocol):
    """Who gets an answer: a greenlet, as a rule."""

    def switch(self, result: Any) -> Any:
        """Go on with the answer."""

    def throw(self, error: PipeError) -> Any:
        """Go on with an exception."""


class Pipe(ABC):
    """Questions go out in order, and the answers come in that order."""

    def __init__(self, limit: float, *, shared: bool = True) -> None:
        """`limit`: seconds that an answer, or a connection, may take. `shared`: many ask at once."""
        self._limit = limit
        self._gathers = shared and "pipelining" in settings.FAST_STEPS
        self._opening: asyncio.Task[None] | None = None
        self._failed_at = -PAUSE_AFTER_FAILURE
        self.is_open = False
        self._flush_is_due = False
        self._asked: deque[tuple[Waiter, float]] = deque()  # Who, and since when.
        self._loop: asyncio.AbstractEventLoop
        self._next_check: asyncio.TimerHandle

    @abstractmethod
    async def _open(self) -> None:
        """Connect. Raises any exception."""

    @abstractmethod
    def _close(self) -> None:
        """Close what is open, or half open; nothing may be."""

    @abstractmethod
    def _flush(self) -> None:
        """Send what was asked since the last time."""

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        self._lose(LostError("It was closed."))

    @property
    def is_opening(self) -> bool:
        """Tell whether a connection is under way."""
        return self._opening is not None

    def _be_open(self) -> None:
        """Connect if need be; raise PipeError if that fails, or has just failed."""
        if self.is_open:
            return
        if self._is_away():
            raise PipeError("The other side is away.")
        if self._opening is None:
            if monotonic() - self._failed_at < PAUSE_AFTER_FAILURE:
                raise PipeError("The last attempt to connect has just failed.")
            self._loop = asyncio.get_running_loop()
            self._opening = self._loop.create_task(self._connect())
        wait(asyncio.shield(self._opening))

    async def _connect(self) -> None:
        try:
            await asyncio.wait_for(self._open(), self._limit)
        except Exception as error:
            self._failed_at = monotonic()
            raise PipeError(f"{type(error).__name__}: {error}") from error
        else:
            self.is_open = True
            self._next_check = self._loop.call_later(CHECK_EVERY, self._check)
        finally:
            self._opening = None
            if not self.is_open:
                self._close()

    def _wait_for_answer(self) -> Any:
        """Wait in the row; the question has been put."""
        self._asked.append((getcurrent(), monotonic()))
        if not self._gathers:
            self._send()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._send)
        return pause()

    def _send(self) -> None:
        self._flush_is_due = False
        if self.is_open:
            try:
                self._flush()
            except Exception as error:  # noqa: BLE001  Whatever it is, the connection is of no use any more.
                self._loop.call_soon(self._lose, LostError(str(error)))

    def _lose(self, error: PipeError) -> None:
        """Close, and tell everybody who waits."""
        if not self.is_open:
            return
        self.is_open = False
        self._next_check.cancel()
        self._close()
        asked, self._asked = self._asked, deque()
        for turn, _ in asked:
            turn.throw(error)

    def _check(self) -> None:
        self._next_check = self._loop.call_later(CHECK_EVERY, self._check)
        if self._asked and (self._is_away() or monotonic() - self._asked[0][1] > self._limit):
            self._lose(PipeError("No answer came in time."))

    def _is_away(self) -> bool:
        """Tell whether the other side is known to be away."""
        return False
