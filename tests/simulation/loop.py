"""An event loop in virtual time, which orders ready callbacks as a real loop might.

It models two loops: asyncio's own, where I/O and timers join the queue of ready callbacks, and libuv's
(which uvloop builds on), where timers run first, then the queue, then I/O. The queue is FIFO in both.
Threads are greenlets that run between iterations.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import count
from typing import Any, cast

from greenlet import getcurrent, greenlet

from tests.simulation.network import Network, Socket
from tests.simulation.world import ViolationError, World

MAX_ITERATIONS = 20_000
STALL = 0.005  # Seconds: the shortest stall.


class Handle:
    """A lean asyncio.Handle."""

    __slots__ = ("_args", "_callback", "_context", "_when", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when: float
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._when = when
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self._when

    def run(self) -> None:
        self._context.run(self._callback, *self._args)


class Loop:
    """The event loop of one seed's process."""

    def __init__(self, world: World, network: Network) -> None:
        self.world = world
        self.network = network
        self.adversary: Callable[[], object] = lambda: None
        self.iteration_seconds = 0.0  # The longest iteration.
        self.is_libuv = world.maybe(0.5)
        self.io_first = world.maybe(0.5)
        self.holds_back = 0.0  # The probability that input is noticed an iteration later.
        self.stalls = 0.0  # The probability of a stall in an iteration.
        self.longest_stall = 1.0
        self.hub = getcurrent()
        self.threads: list[greenlet] = []  # The runnable ones.
        self.alive_threads = 0
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = count()

    # --- The interface for asyncio ---------------------------------------------------------------

    def time(self) -> float:
        return self.world.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context, 0.0)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.world.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast(Any, self))

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        return asyncio.Task(coro, loop=cast(Any, self), name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.world.violate(f"unhandled in the loop: {context.get('message')}: {context.get('exception')!r}")

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        self._check_caller()
        self.network.open[fd].on_readable = lambda: callback(*args)

    def remove_reader(self, fd: Any) -> bool:
        self._check_caller()
        socket = self.network.open.get(fd)
        if socket is None or socket.on_readable is None:
            return False
        socket.on_readable = None
        return True

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> None:
        self._check_caller()
        self.network.open[fd].on_writable = lambda: callback(*args)

    def remove_writer(self, fd: Any) -> bool:
        self._check_caller()
        socket = self.network.open.get(fd)
        if socket is None or socket.on_writable is None:
            return False
        socket.on_writable = None
        return True

    def _check_caller(self) -> None:
        """Reject calls from requests: uvloop would crash, see petstore/db/event_loop/connection.py."""
        if getcurrent() is not self.hub:
            self.world.violate("A request changes the loop's readers or writers.")

    # --- Threads ---------------------------------------------------------------------------------

    def start_thread(self, run: Callable[[], object]) -> None:

        def run_and_end() -> None:
            try:
                run()
            except Exception as error:  # noqa: BLE001
                self.world.violate(f"unhandled in a thread: {error!r}")
            finally:
                self.alive_threads -= 1

        self.alive_threads += 1
        self.threads.append(greenlet(run_and_end, parent=self.hub))

    def sleep(self, seconds: float) -> None:
        self.world.after(seconds, self._wake, getcurrent())
        self.hub.switch()

    def _wake(self, thread: greenlet) -> None:
        self.threads.append(thread)

    # --- Running ---------------------------------------------------------------------------------

    def run_until(self, is_done: Callable[[], bool], seconds: float) -> None:
        """Run until a condition holds, nothing is scheduled, or these seconds, without stalls, are over."""
        deadline = self.world.now - self.world.stalled + seconds
        asyncio._set_running_loop(cast(Any, self))
        try:
            for _ in range(MAX_ITERATIONS):
                if is_done() or self.world.now - self.world.stalled > deadline or not self._iterate():
                    return
        finally:
            asyncio._set_running_loop(None)
        raise ViolationError("The loop never becomes idle.")

    @property
    def live_timers(self) -> list[Handle]:
        return [handle for _, _, handle in self._timers if not handle.is_cancelled]

    def _iterate(self) -> bool:
        world = self.world
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)
        if self._ready or self.threads or self._has_io():
            world.advance(world.now + self.iteration_seconds * world.chance.random())
        else:
            when = min(timers[0][0] if timers else float("inf"), world.next_at)
            if when == float("inf"):
                return False
            world.advance(when)
        self.adversary()
        self._stall()
        if self.threads:
            self._run_threads()
        if self.is_libuv:
            self._run_all(self._due())
            self._stall()
            self._run_ready()
            self._stall()
            self._run_all(self._io())
        else:
            first, second = (self._io, self._due) if self.io_first else (self._due, self._io)
            self._ready += first()
            self._ready += second()
            self._run_ready()
        return True

    def _stall(self) -> None:
        if self.stalls and self.world.maybe(self.stalls):
            seconds = self.world.chance.uniform(STALL, self.longest_stall)
            self.world.note("stalls", seconds)
            self.world.stalled += seconds
            self.world.advance(self.world.now + seconds)

    def _has_io(self) -> bool:
        signalled, opened = self.network.signalled, self.network.open
        return any(socket.on_readable for socket in signalled.values()) or any(
            socket.on_writable for socket in opened.values()
        )

    def _due(self) -> list[Handle]:
        found, timers, now = [], self._timers, self.world.now
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            if not handle.is_cancelled:
                found.append(handle)
        return found

    def _io(self) -> list[Handle]:
        signalled = self.network.signalled
        found = [
            (socket, "on_readable") for socket in signalled.values() if socket.on_readable is not None
        ] + [
            (socket, "on_writable")
            for socket in self.network.open.values()
            if socket.on_writable is not None
        ]
        if not found:
            return []
        if self.holds_back:
            found = [one for one in found if not self.world.maybe(self.holds_back)]
        if len(found) > 1:
            self.world.chance.shuffle(found)
        return [Handle(call_if_watched, (*one, getattr(*one)), None, 0.0) for one in found]

    def _run_ready(self) -> None:
        ready = self._ready
        self._run_all([ready.popleft() for _ in range(len(ready))])

    def _run_all(self, handles: list[Handle]) -> None:
        for handle in handles:
            if not handle.is_cancelled:
                try:
                    handle.run()
                except ViolationError:
                    raise
                except Exception as error:  # noqa: BLE001
                    self.world.violate(f"unhandled in the loop: {error!r}")

    def _run_threads(self) -> None:
        threads, self.threads = self.threads, []
        if len(threads) > 1:
            self.world.chance.shuffle(threads)
        for thread in threads:
            thread.switch()


def call_if_watched(socket: Socket, event: str, callback: Callable[[], object]) -> None:
    """Call back unless the callback was removed in this iteration."""
    if getattr(socket, event) is callback:
        callback()
