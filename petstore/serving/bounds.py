"""How long clients may take to send their bodies, and how much memory those take that are coming."""

import asyncio
import math
from typing import Any, Self

from django.conf import settings

MOST_HELD = 8 * 1024 * 1024  # Bytes of larger bodies that are still coming, in a worker.
MOST_UPLOADING = 32 * 1024 * 1024  # The same, of those of staff.
WAITING_SECONDS = 60  # For room. As many connections as a worker takes would have had their turns by then.
LAST_SECONDS = 3  # What clients that are sending have when the worker stops: less than its own patience.


class Deadline:
    """The end of a client's time, for what is in its `with`: TimeoutError there.

    What `asyncio.timeout_at` does, in a third of its time: each request with a body has one.
    """

    __slots__ = ("_cancelling", "_running", "_task", "_timer", "when")

    def __init__(self, when: float, running: "set[Deadline]") -> None:
        """Take the loop's time, and those that run for as long as this one."""
        self.when = when
        self._running = running
        self._timer: asyncio.TimerHandle | None = None  # None once the time is over.

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = asyncio.get_running_loop().call_at(self.when, self.end)
        self._running.add(self)
        return self

    def postpone(self, when: float) -> None:
        """Set another time, unless this one has come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(when, self.end)
            self.when = when

    def end(self) -> None:
        """Let the time be over now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._task.cancel()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._running.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error  # Nobody else has cancelled the task.


class Patience:
    """When the time of sending clients ends: after CLIENT_SECONDS, and for all when the worker stops."""

    def __init__(self) -> None:
        self._last = math.inf
        self._running: set[Deadline] = set()

    def until(self, seconds: float) -> float:
        """Return the loop's time in so many seconds, or when all ends before."""
        return min(asyncio.get_running_loop().time() + seconds, self._last)

    def deadline(self) -> Deadline:
        """Give a client its time, which begins now."""
        return Deadline(self.until(settings.CLIENT_SECONDS), self._running)

    def end(self) -> None:
        """Give everybody LAST_SECONDS, and nobody more from now on."""
        self._last = self.until(LAST_SECONDS)
        for deadline in self._running:
            deadline.postpone(min(deadline.when, self._last))


class Room:
    """Memory for bodies that are coming. Who finds it full waits in turn, unread: TCP holds them back.

    Whoever has held room for longer than a time in seconds loses it while somebody waits, the oldest first.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._free = most
        self._seconds = seconds
        # Bytes, and since when on the loop's clock; the oldest first.
        self._held: dict[Deadline, tuple[int, float]] = {}
        self._waiting: dict[Deadline, tuple[int, asyncio.Future[None]]] = {}
        self._next: asyncio.TimerHandle | None = None  # When the oldest is to be given up.

    async def take(self, deadline: Deadline, size: int) -> None:
        """Wait until there is room for the body with this deadline, whose time begins then."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[deadline] = size, turn
        deadline.postpone(patience.until(WAITING_SECONDS))
        self._let_in()
        await turn

    def leave(self, deadline: Deadline) -> None:
        """Give back what a body holds, and its place among those that wait."""
        self._waiting.pop(deadline, None)
        size, _ = self._held.pop(deadline, (0, 0.0))
        self._free += size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            deadline, (size, turn) = next(iter(self._waiting.items()))
            if size > self._free:
                break
            del self._waiting[deadline]
            self._free -= size
            self._held[deadline] = size, asyncio.get_running_loop().time()
            deadline.postpone(patience.until(settings.CLIENT_SECONDS))
            if not turn.done():
                turn.set_result(None)
        self._watch()

    def _watch(self) -> None:
        if self._waiting and self._held and self._next is None:
            _, since = next(iter(self._held.values()))
            self._next = asyncio.get_running_loop().call_at(since + self._seconds, self._give_up)

    def _give_up(self) -> None:
        """End the time of the oldest, as many as hold what the first who waits needs."""
        self._next = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        wanted = next(iter(self._waiting.values()))[0] - self._free if self._waiting else 0
        for deadline, (size, since) in self._held.items():
            if wanted <= 0 or since + self._seconds > now:
                break
            loop.call_soon(deadline.end)  # After whoever has all of its body by now.
            wanted -= size
        self._watch()


patience = Patience()
everybody = Room(MOST_HELD, seconds=1)
staff = Room(MOST_UPLOADING, seconds=10)
