"""Deadlines and memory budgets for request bodies in transit. MAX_BODY_BYTES, a setting, limits each."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

MAX_BODY_MEMORY = 8 * 1024 * 1024  # Bytes per worker for bodies in transit.
MAX_UPLOAD_MEMORY = 32 * 1024 * 1024  # Bytes per worker for uploads by staff.
QUEUE_SECONDS = 60  # Maximum time in the queue of a budget.
SHUTDOWN_SECONDS = 3  # Timeout for clients that are sending when the worker stops. Less than STOP_SECONDS.


class BodyTimeouts:
    """Deadlines of clients that are still sending. Worker shutdown shortens them."""

    def __init__(self) -> None:
        self._shutdown_at = math.inf
        self._running: set[asyncio.Timeout] = set()

    def get_deadline(self, seconds: float) -> float:
        """Return the loop time `seconds` from now, or the shutdown deadline if that is earlier."""
        return min(asyncio.get_running_loop().time() + seconds, self._shutdown_at)

    @asynccontextmanager
    async def start(self) -> AsyncIterator[asyncio.Timeout]:
        """Limit the block to CLIENT_SECONDS. Raises TimeoutError."""
        async with asyncio.timeout_at(self.get_deadline(settings.CLIENT_SECONDS)) as deadline:
            self._running.add(deadline)
            try:
                yield deadline
            finally:
                self._running.remove(deadline)

    def shut_down(self) -> None:
        """Limit all current and future deadlines to SHUTDOWN_SECONDS from now."""
        self._shutdown_at = self.get_deadline(SHUTDOWN_SECONDS)
        for deadline in self._running:
            reschedule(deadline, min(deadline.when() or self._shutdown_at, self._shutdown_at))


def reschedule(deadline: asyncio.Timeout, when: float) -> None:
    """Move a deadline unless it has expired. A time in the past expires in the loop's next iteration."""
    if not deadline.expired():
        deadline.reschedule(when)


class MemoryBudget:
    """A budget of bytes for bodies in transit.

    When it is exhausted, requests queue in order of arrival before their body is read, and TCP flow control
    stops the senders. While requests are queued, the oldest bodies that have held memory for more than
    `seconds` expire, as many as the next request needs.
    """

    def __init__(self, size: int, seconds: float) -> None:
        self._free = size
        self._seconds = seconds
        # In order of arrival, the bytes that each body holds and the loop time since which it holds them.
        self._held: dict[asyncio.Timeout, tuple[int, float]] = {}
        self._waiting: dict[asyncio.Timeout, tuple[int, asyncio.Future[None]]] = {}
        self._expiry: asyncio.TimerHandle | None = None  # Expires the oldest body.

    async def acquire(self, deadline: asyncio.Timeout, size: int) -> None:
        """Wait until the budget has room for `size` bytes, then restart the deadline."""
        admitted = asyncio.get_running_loop().create_future()
        self._waiting[deadline] = size, admitted
        reschedule(deadline, body_timeouts.get_deadline(QUEUE_SECONDS))
        self._admit_waiting()
        await admitted

    def release(self, deadline: asyncio.Timeout) -> None:
        """Return the body's bytes, or leave the queue."""
        self._waiting.pop(deadline, None)
        size, _ = self._held.pop(deadline, (0, 0.0))
        self._free += size
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        while self._waiting:
            deadline, (size, admitted) = next(iter(self._waiting.items()))
            if size > self._free:
                break
            del self._waiting[deadline]
            self._free -= size
            self._held[deadline] = size, asyncio.get_running_loop().time()
            reschedule(deadline, body_timeouts.get_deadline(settings.CLIENT_SECONDS))
            if not admitted.done():
                admitted.set_result(None)
        self._schedule_expiry()

    def _schedule_expiry(self) -> None:
        if self._waiting and self._held and self._expiry is None:
            _, since = next(iter(self._held.values()))
            self._expiry = asyncio.get_running_loop().call_at(since + self._seconds, self._expire_oldest)

    def _expire_oldest(self) -> None:
        self._expiry = None
        now = asyncio.get_running_loop().time()
        needed = next(iter(self._waiting.values()))[0] - self._free if self._waiting else 0
        for deadline, (size, since) in self._held.items():
            if needed <= 0 or since + self._seconds > now:
                break
            reschedule(deadline, now)  # A body that completes in this iteration does not expire.
            needed -= size
        self._schedule_expiry()


body_timeouts = BodyTimeouts()
body_budget = MemoryBudget(MAX_BODY_MEMORY, seconds=1)
upload_budget = MemoryBudget(MAX_UPLOAD_MEMORY, seconds=10)
