"""How long clients may take to send their bodies, and how much memory those take that are coming."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

MAX_BODY_MEMORY = 8 * 1024 * 1024  # Bytes of larger bodies that are still coming, in a worker.
MAX_UPLOAD_MEMORY = 32 * 1024 * 1024  # The same, of those of staff.
QUEUE_SECONDS = 60  # For room. As many connections as a worker takes would have had their turns by then.
SHUTDOWN_SECONDS = 3  # For clients that are still sending when the worker stops.


class BodyTimeouts:
    """When the time of sending clients ends: after CLIENT_SECONDS, and for all when the worker stops."""

    def __init__(self) -> None:
        self._last = math.inf
        self._running: set[asyncio.Timeout] = set()

    def until(self, seconds: float) -> float:
        """Return the loop's time in so many seconds, or when all ends before."""
        return min(asyncio.get_running_loop().time() + seconds, self._last)

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[asyncio.Timeout]:
        """Give a client its time, which begins now. Raises TimeoutError."""
        async with asyncio.timeout_at(self.until(settings.CLIENT_SECONDS)) as deadline:
            self._running.add(deadline)
            try:
                yield deadline
            finally:
                self._running.remove(deadline)

    def end(self) -> None:
        """Give everybody LAST_SECONDS, and nobody more from now on."""
        self._last = self.until(SHUTDOWN_SECONDS)
        for deadline in self._running:
            reschedule(deadline, min(deadline.when() or self._last, self._last))


def reschedule(deadline: asyncio.Timeout, when: float) -> None:
    """Set another time, unless the old one has come. One that has passed comes in the loop's next turn."""
    if not deadline.expired():
        deadline.reschedule(when)


class MemoryBudget:
    """Memory for bodies that are coming. Who finds it full waits in turn, unread: TCP holds them back.

    Whoever has held room for longer than a time in seconds loses it while somebody waits, the oldest first.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._free = most
        self._seconds = seconds
        # Bytes, and since when on the loop's clock; the oldest first.
        self._held: dict[asyncio.Timeout, tuple[int, float]] = {}
        self._waiting: dict[asyncio.Timeout, tuple[int, asyncio.Future[None]]] = {}
        self._next: asyncio.TimerHandle | None = None  # When the oldest is to be given up.

    async def take(self, deadline: asyncio.Timeout, size: int) -> None:
        """Wait until there is room for the body with this deadline, whose time begins then."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[deadline] = size, turn
        reschedule(deadline, body_timeouts.until(QUEUE_SECONDS))
        self._let_in()
        await turn

    def leave(self, deadline: asyncio.Timeout) -> None:
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
            reschedule(deadline, body_timeouts.until(settings.CLIENT_SECONDS))
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
        now = asyncio.get_running_loop().time()
        wanted = next(iter(self._waiting.values()))[0] - self._free if self._waiting else 0
        for deadline, (size, since) in self._held.items():
            if wanted <= 0 or since + self._seconds > now:
                break
            reschedule(deadline, now)  # In the next turn: whoever has all of its body by now keeps it.
            wanted -= size
        self._watch()


body_timeouts = BodyTimeouts()
body_budget = MemoryBudget(MAX_BODY_MEMORY, seconds=1)
staff = MemoryBudget(MAX_UPLOAD_MEMORY, seconds=10)
