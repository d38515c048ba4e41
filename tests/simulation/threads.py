"""Executors with threads of the simulated loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.simulation.loop import Loop


class Threads:
    """A ThreadPoolExecutor."""

    def __init__(self, loop: Loop, count: int) -> None:
        self._loop = loop
        self._free = count
        self._work: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def get(self) -> Threads:
        """Stand in for the cached function that makes the pool."""
        return self

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a function as soon as a thread is free."""
        future: Future[Any] = Future()
        self._work.append((future, lambda: function(*arguments)))
        if self._free:
            self._free -= 1
            self._loop.start_thread(self._serve)
        return future

    def _serve(self) -> None:
        while self._work:
            future, function = self._work.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:  # noqa: BLE001  As ThreadPoolExecutor does.
                    future.set_exception(error)
                else:
                    future.set_result(result)
        self._free += 1
