"""How a plain function waits on the event loop while other requests go on.

Each request runs in a greenlet of the loop's thread. To wait, it switches to the greenlet that runs the
loop, and whoever has what it waits for switches back. Django's own guard stays: a query made on the loop by
accident raises SynchronousOnlyOperation rather than hold up everybody.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import OperationalError, connections
from greenlet import getcurrent, greenlet

P = ParamSpec("P")
Result = TypeVar("Result")


AT_ONCE = 8  # Requests that begin in one turn of the loop.
QUEUED_TOO_LONG = "The request waited too long for its turn: see DATABASE_QUEUE_TIMEOUT."


class Turn(greenlet):
    """The greenlet of one request."""

    transaction: Any = None  # The connection that holds the transaction which the request has open.


@cache
def threads() -> ThreadPoolExecutor:
    """Return this process's threads for what blocks."""
    return ThreadPoolExecutor(settings.THREADS, thread_name_prefix="blocking")


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
    """Return the request on the loop that asks."""
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


def in_thread(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call what blocks: from the loop in a thread of its own, from anywhere else at once.

    Raises OperationalError if no thread was free for QUEUE_TIMEOUT milliseconds.
    """
    if not on_loop():
        return function(*args, **kwargs)
    call = threads().submit(lambda: call_and_tidy(lambda: function(*args, **kwargs)))
    # What a thread has begun can't be cancelled, and goes on.
    in_time = asyncio.get_running_loop().call_later(settings.QUEUE_TIMEOUT / 1000, call.cancel)
    try:
        return wait(asyncio.wrap_future(call))
    except asyncio.CancelledError:
        raise OperationalError(QUEUED_TOO_LONG) from None
    finally:
        in_time.cancel()


def blocking(function: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate what blocks: see `in_thread`."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        return in_thread(function, *args, **kwargs)

    return wrapper


def call_and_tidy(function: Callable[[], Result]) -> Result:
    """Call, and drop connections that broke: what Django does at the end of a request."""
    try:
        return function()
    finally:
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
