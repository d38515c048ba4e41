"""Greenlets, in which plain functions wait on the event loop while other requests continue.

Each request runs in a greenlet of the loop's thread. To wait, it switches to the loop's own greenlet, and
the callback that receives the result switches back.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Any, TypeVar

from django.conf import settings
from django.db import OperationalError
from greenlet import GreenletExit, getcurrent, greenlet

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

TICK = 0.1  # Seconds.
STARTS_PER_ITERATION = 8
MAX_IDLE = 64
QUEUED_TOO_LONG = "The request waited too long in the queue. See DATABASE_QUEUE_TIMEOUT."


class RequestTask:
    """One request, which borrows a greenlet from the pool until it ends.

    Resuming an ended task has no effect, because its greenlet may already serve another request.
    """

    __slots__ = ("_greenlet", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        """Create a task for `work`, whose exceptions are logged and never reach the resuming code."""
        self.work = work
        self._greenlet: PooledGreenlet | None = None

    def start(self) -> None:
        """Run until the task first waits or ends. Only the loop may call this, and only once."""
        assert not is_on_loop()
        runner = greenlet_pool.idle.pop() if greenlet_pool.idle else PooledGreenlet(run_tasks)
        runner.parent = getcurrent()
        runner.task, self._greenlet = self, runner
        runner.switch()

    @property
    def is_active(self) -> bool:
        return self._greenlet is not None

    def switch(self, result: Any = None) -> None:
        if self._greenlet is not None:
            self._greenlet.switch(result)

    def throw(self, error: BaseException) -> None:
        if self._greenlet is not None:
            self._greenlet.throw(error)


class PooledGreenlet(greenlet):
    """A greenlet that runs one request after another, because creating greenlets is expensive."""

    def __init__(self, run: Callable[[], object]) -> None:
        super().__init__(run)
        self.task: RequestTask | None = None
        self.connections: dict[str, Any] = {}  # Django's, by alias: see django_connections.py.


def run_tasks() -> None:
    """Run the tasks that borrow the current greenlet, one after another.

    No local variable refers to the greenlet, so that an idle one is freed together with its thread's pool.
    """
    is_reusable = True
    while is_reusable:
        try:
            current_task().work()
        except GreenletExit:  # The request was cancelled, or the greenlet is being freed.
            is_reusable = False
        except BaseException:
            logger.exception("A request ended with an exception.")
        close_connections()
        is_reusable = release_greenlet(current_task(), is_reusable=is_reusable)
        if is_reusable:
            pause()


def close_connections() -> None:
    """Close the connections on which the ended request has left something open."""
    connections = current_connections()
    for alias, connection in list(connections.items()):
        try:
            is_clean = connection.end_request()
        except Exception:
            logger.exception("A connection could not be closed.")
            is_clean = False
        if not is_clean:
            del connections[alias]


def release_greenlet(task: RequestTask, *, is_reusable: bool) -> bool:
    """End the task. Returns whether its greenlet went back to the pool, which may be full."""
    runner: Any = getcurrent()
    task._greenlet = None
    runner.task = None
    runner.gr_context = None  # Context variables must not leak into the next request.
    if not is_reusable or len(greenlet_pool.idle) >= MAX_IDLE:
        return False
    greenlet_pool.idle.append(runner)
    return True


class GreenletPool(threading.local):
    """The idle greenlets of each thread, which can't switch between threads."""

    def __init__(self) -> None:
        self.idle: list[PooledGreenlet] = []


greenlet_pool = GreenletPool()


def timeout_in_ticks(seconds: float) -> int:
    """Convert a timeout to ticks.

    Two extra ticks let the loop read input that arrived while the process was suspended.
    """
    return ceil(seconds / TICK) + 2


class LoopTimer:
    """Calls a function after a delay, which excludes time for which the process was suspended."""

    def __init__(self, seconds: float, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._remaining_ticks = timeout_in_ticks(seconds) - 1  # The first one comes after a whole tick.
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle = self._loop.call_later(TICK, self._tick)

    def cancel(self) -> None:
        self._handle.cancel()

    def _tick(self) -> None:
        self._remaining_ticks -= 1
        if self._remaining_ticks > 0:
            self._handle = self._loop.call_later(TICK, self._tick)
        else:  # No request may be resumed inside a timer's callback (see connection.py).
            self._handle = self._loop.call_soon(self._callback)


class RequestQueue(deque[RequestTask]):
    """Requests on the loop that wait for their turn. What gives a turn removes the request."""

    def wait(self) -> Any:
        """Wait until the request is resumed. Raises OperationalError after QUEUE_TIMEOUT."""
        task = current_task()
        self.append(task)
        timer = LoopTimer(settings.QUEUE_TIMEOUT / 1000, partial(self._time_out, task))
        try:
            return pause()
        except BaseException:
            with suppress(ValueError):
                self.remove(task)
            raise
        finally:
            timer.cancel()

    def fail_all(self, error: Exception) -> None:
        """Fail each request with its own copy of the error."""
        while self:
            copied = type(error)(*error.args)
            copied.__cause__ = error.__cause__
            asyncio.get_running_loop().call_soon(self.popleft().throw, copied)

    def _time_out(self, task: RequestTask) -> None:
        if task in self:
            task.throw(OperationalError(QUEUED_TOO_LONG))


class StartLimiter:
    """Limits the requests that start per loop iteration, so that bursts don't delay those in progress."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()

    def start(self, callback: Callable[[], object]) -> None:
        """Call `callback` in a later iteration, in the order of arrival."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._start_next)
        self._waiting.append(callback)

    def _start_next(self) -> None:
        count = min(STARTS_PER_ITERATION, len(self._waiting))
        callbacks = [self._waiting.popleft() for _ in range(count)]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._start_next)
        for callback in callbacks:
            callback()


def is_on_loop() -> bool:
    """Return whether the caller is a request on the event loop, which may call `pause` and `wait`."""
    return type(getcurrent()) is PooledGreenlet


def current_task() -> RequestTask:
    runner: Any = getcurrent()
    task: RequestTask = runner.task
    return task


def current_connections() -> dict[str, Any]:
    """Return Django's connections of this request on the event loop, by alias."""
    runner: Any = getcurrent()
    connections: dict[str, Any] = runner.connections
    return connections


def pause() -> Any:
    """Switch to the loop until the task is resumed, and return the value that it is resumed with."""
    parent = getcurrent().parent
    assert parent is not None
    return parent.switch()


def wait(awaitable: Awaitable[Result]) -> Result:
    """Wait for an awaitable from within a request on the loop."""
    task = current_task()
    future = asyncio.ensure_future(awaitable)
    if not future.done():
        future.add_done_callback(lambda _: task.switch())
        pause()
    return future.result()
