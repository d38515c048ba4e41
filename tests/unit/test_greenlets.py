"""Requests borrow greenlets from a pool, and share no state through them."""

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from petstore.db.event_loop import greenlets
from petstore.db.event_loop.greenlets import (
    MAX_IDLE,
    PooledGreenlet,
    RequestTask,
    current_connections,
    current_task,
    is_on_loop,
    pause,
)

current_name: ContextVar[str] = ContextVar("current_name", default="no request")


@pytest.fixture(autouse=True)
def idle_greenlets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PooledGreenlet]]:
    monkeypatch.setattr(greenlets, "greenlet_pool", greenlets.GreenletPool())
    yield greenlets.greenlet_pool.idle
    greenlets.greenlet_pool.idle.clear()


def start_task(work: Callable[[], object]) -> RequestTask:
    task = RequestTask(work)
    task.start()
    return task


def test_greenlet_is_reused_by_the_next_request(idle_greenlets: list[PooledGreenlet]) -> None:
    calls: list[Any] = []
    for _ in range(3):
        start_task(lambda: calls.append((current_task(), is_on_loop())))
    assert len(idle_greenlets) == 1
    assert len({task for task, _ in calls}) == 3
    assert all(was_on_loop for _, was_on_loop in calls)
    assert not is_on_loop()
    tasks = [start_task(pause) for _ in range(MAX_IDLE + 5)]
    for task in tasks:
        task.switch()
    assert len(idle_greenlets) == MAX_IDLE  # The others have ended.
    assert not any(task.is_active for task in tasks)


def test_resuming_an_ended_request_reaches_no_other() -> None:
    results: list[Any] = []
    first = start_task(lambda: results.append(pause()))
    first.switch("its own")
    second = start_task(lambda: results.append(pause()))

    first.switch("too late")
    first.throw(RuntimeError("too late"))
    assert second.is_active
    assert results == ["its own"]

    second.switch("its own, too")
    assert results == ["its own", "its own, too"]
    assert not second.is_active


def test_exception_of_a_request_is_logged_and_the_next_one_runs(
    idle_greenlets: list[PooledGreenlet], caplog: pytest.LogCaptureFixture
) -> None:
    task = start_task(pause)
    with caplog.at_level(logging.ERROR):
        task.throw(KeyboardInterrupt())
    assert "A request ended with an exception." in caplog.text
    assert not task.is_active

    results: list[str] = []
    start_task(lambda: results.append("next"))
    assert results == ["next"]
    assert len(idle_greenlets) == 1


def test_state_of_a_request_does_not_leak_into_the_next() -> None:
    states: list[Any] = []

    class Unfinished:
        def end_request(self) -> bool:
            raise OSError  # It is logged.

    def change_state() -> None:
        current_name.set("the first")
        current_connections()["default"] = Unfinished()

    start_task(change_state)
    start_task(lambda: states.append((current_name.get(), current_connections())))
    assert states == [("no request", {})]


def test_request_cannot_start_another() -> None:
    """The new greenlet would return to its starter, which may be serving another request by then."""
    raised: list[bool] = []

    def start_another() -> None:
        with pytest.raises(AssertionError):
            start_task(pause)
        raised.append(True)

    start_task(start_another)
    assert raised


def test_idle_greenlets_end_silently_with_their_thread(caplog: pytest.LogCaptureFixture) -> None:
    references: list[weakref.ref[PooledGreenlet]] = []

    def run() -> None:
        start_task(lambda: None)
        references.extend(weakref.ref(runner) for runner in greenlets.greenlet_pool.idle)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    start_task(lambda: None)  # The next switch makes greenlet clean up after the thread.
    assert [reference() for reference in references] == [None]
    assert caplog.text == ""
