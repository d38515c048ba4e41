"""How a plain function waits on the event loop while other requests go on.

Each request runs in a greenlet of the loop's thread. To wait, it switches to the greenlet that runs the
loop, and whoever has what it waits for switches back. Django's own guard stays: a query made on the loop by
accident raises SynchronousOnlyOperation rather than hold up everybody.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from math import ceil
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

TICK = 0.1  # Seconds.
AT_ONCE = 8  # Requests that begin in one turn of the loop.
MOST_IDLE = 64  # Greenlets that are kept, with some 20 KiB each.
QUEUED_TOO_LONG = "The request waited too long for its turn: see DATABASE_QUEUE_TIMEOUT."


class Turn:
    """One request, from its beginning to its end. It is no greenlet, but is lent one.

    So whoever lets it go on too late, when it has ended, does nothing. The greenlet may be at another
    request by then, which must get nobody else's answer.
    """

    __slots__ = ("_runner", "transaction", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        """Take what it does: what that raises is logged, and never hits whoever let it go on."""
        self.work = work
        self.transaction: Any = None  # The one that the request has open.
        self._runner: Runner | None = None

    def begin(self) -> None:
        """Run until it waits for something, or ends; called once, by the loop and by no request."""
        assert not on_loop()
        runner = idle.runners.pop() if idle.runners else Runner()
        runner.parent = getcurrent()
        runner.turn, self._runner = self, runner
        runner.switch()

    @property
    def is_under_way(self) -> bool:
        return self._runner is not None

    def switch(self, result: Any = None) -> None:
        """Let it go on, with what it waits for."""
        if self._runner is not None:
            self._runner.switch(result)

    def throw(self, error: BaseException) -> None:
        """Let it go on with an exception."""
        if self._runner is not None:
            self._runner.throw(error)


class Runner(greenlet):
    """Runs one request after another.

    A new greenlet for each would have the kernel map memory for its frames and take it back, which
    interrupts the other core: a twentieth of a request.
    """

    turn: Turn | None = None

    def __init__(self) -> None:
        super().__init__(serve)


def serve() -> None:
    """Run the turn of the current greenlet, then the next one that it is lent to.

    No variable holds the greenlet: while it is idle, nobody does but the list, which goes with the thread.
    """
    while True:
        try:
            this_turn().work()
        except GreenletExit:  # The process ends.
            return
        except BaseException:
            logger.exception("A request ended with an exception.")
        if not keep_idle(this_turn()):
            return
        pause()


def keep_idle(turn: Turn) -> bool:
    """End a turn, and keep its greenlet for another. False: there are enough."""
    runner: Any = getcurrent()
    turn._runner = None
    runner.turn = None
    runner.gr_context = None  # As in a new one: no variable of this request is seen by another.
    if len(idle.runners) >= MOST_IDLE:
        return False
    idle.runners.append(runner)
    return True


class Idle(threading.local):
    """The greenlets of a thread that have nothing to do. No other thread could use them."""

    def __init__(self) -> None:
        self.runners: list[Runner] = []


idle = Idle()


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
    return type(getcurrent()) is Runner


def this_turn() -> Turn:
    """Return the one that the caller is part of."""
    runner: Any = getcurrent()
    turn: Turn = runner.turn
    return turn


def pause() -> Any:
    """Let others go on, until somebody switches back; return what they bring."""
    parent = getcurrent().parent
    assert parent is not None
    return parent.switch()


def wait(awaitable: Awaitable[Result]) -> Result:
    """Return the awaitable's result, or raise its exception. Only for a request on the loop."""
    turn = this_turn()
    future = asyncio.ensure_future(awaitable)
    if not future.done():
        future.add_done_callback(lambda _: turn.switch())
        pause()
    return future.result()
