"""How a plain function waits on the event loop while other requests go on.

Each request runs in a greenlet of the loop's thread. To wait, it switches to the greenlet that runs the
loop, and whoever has what it waits for switches back. Django's own guard stays: a query made on the loop by
accident raises SynchronousOnlyOperation rather than hold up everybody.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from math import ceil
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


TICK = 0.1  # Seconds.
AT_ONCE = 8  # Requests that begin in one turn of the loop.
QUEUED_TOO_LONG = "The request waited too long for its turn: see DATABASE_QUEUE_TIMEOUT."


class Turn(greenlet):
    """The greenlet of one request."""

    transaction: Any = None  # The one that the request has open.

    def __init__(self, run: Callable[..., object]) -> None:
        """Take what it runs: what that raises is logged, and never hits whoever let it go on."""
        super().__init__(partial(guarded, run))


def guarded(run: Callable[..., object], *args: Any) -> None:
    """Call, and log what is raised: it would end in the middle of what gives others their answers."""
    try:
        run(*args)
    except BaseException:
        logger.exception("A request ended with an exception.")


def ticks(seconds: float) -> int:
    """Return after how many ticks so many seconds have passed, and the loop has read what came by then.

    The first tick may come at once. Of the last two the first may be late, because the process stood still
    when the answer came; before the second one the loop reads what is there.
    """
    return ceil(seconds / TICK) + 2


class Alarm:
    """Calls after so many seconds of the loop. The time in which the process stood still doesn't count."""

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self._call = call
        self._left = ticks(seconds) - 1  # The first comes after a whole tick.
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle = self._loop.call_later(TICK, self._tick)

    def cancel(self) -> None:
        self._handle.cancel()

    def _tick(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._handle = self._loop.call_later(TICK, self._tick)
        else:  # No request may go on inside the callback of a timer: see connection.py.
            self._handle = self._loop.call_soon(self._call)


class Entrance:
    """Lets few requests begin in one turn of the loop: those under way are not held up by newcomers.

    A request that takes several turns would otherwise wait at each for all that have just come, and hold
    its database connection meanwhile.
    """

    def __init__(self) -> None:
        self._left = AT_ONCE
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_due = False

    def enter(self, begin: Callable[[], object]) -> None:
        """Begin now, or in a later turn; in the order of coming."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._left:
            self._left -= 1
            begin()
        else:
            self._waiting.append(begin)

    def _next_turn(self) -> None:
        self._is_due = bool(self._waiting)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._left = AT_ONCE
        while self._waiting and self._left:
            self._left -= 1
            self._waiting.popleft()()


def on_loop() -> bool:
    """Tell whether the caller is a request on the event loop, and may wait there."""
    return type(getcurrent()) is Turn


def this_turn() -> Turn:
    turn = getcurrent()
    assert isinstance(turn, Turn)
    return turn


def pause() -> Any:
    """Let others go on, until somebody switches back; return what they bring."""
    parent = getcurrent().parent
    assert parent is not None
    return parent.switch()


def wait(awaitable: Awaitable[Result]) -> Result:
    """Return the awaitable's result, or raise its exception. Only for a request on the loop."""
    turn = getcurrent()
    future = asyncio.ensure_future(awaitable)
    if not future.done():
        future.add_done_callback(lambda _: turn.switch())
        pause()
    return future.result()
