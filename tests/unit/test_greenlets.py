"""Requests borrow greenlets from a pool, and share no state through them."""

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from petstore.event_loop import greenlets
from petstore.event_loop.greenlets import (
    MAX_IDLE,
    PooledGreenlet,
    RequestTask,
    current_task,
    is_on_loop,
    pause,
)

seen_by: ContextVar[str] = ContextVar("seen_by", default="no request")


@pytest.fixture(autouse=True)
def runners(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PooledGreenlet]]:
    """A pool without greenlets of other tests."""
    monkeypatch.setattr(greenlets, "greenlet_pool", greenlets.GreenletPool())
    yield greenlets.greenlet_pool.idle
    greenlets.greenlet_pool.idle.clear()


def begun(work: Callable[[], object]) -> RequestTask:
    task = RequestTask(work)
    task.start()
    return task


def test_greenlet_is_reused_by_the_next_request(runners: list[PooledGreenlet]) -> None:
    ran: list[Any] = []
    for _ in range(3):
        begun(lambda: ran.append((current_task(), is_on_loop())))
    assert len(runners) == 1
    assert len({task for task, _ in ran}) == 3
    assert all(was_on_loop for _, was_on_loop in ran)
    assert not is_on_loop()


def test_resuming_an_ended_request_reaches_no_other() -> None:
    heard: list[Any] = []
    first = begun(lambda: heard.append(pause()))
    first.switch("its own")
    second = begun(lambda: heard.append(pause()))

    first.switch("too late")
    first.throw(RuntimeError("too late"))
    assert second.is_active
    assert heard == ["its own"]

    second.switch("its own, too")
    assert heard == ["its own", "its own, too"]
    assert not second.is_active


def test_exception_of_a_request_is_logged_and_the_next_one_runs(
    runners: list[PooledGreenlet], caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        pause()

    task = begun(fails)
    with caplog.at_level(logging.ERROR):
        task.throw(KeyboardInterrupt())
    assert "A request ended with an exception." in caplog.text
    assert not task.is_active

    heard: list[str] = []
    begun(lambda: heard.append("next"))
    assert heard == ["next"]
    assert len(runners) == 1


def test_state_of_a_request_does_not_leak_into_the_next() -> None:
    seen: list[Any] = []

    def leaves() -> None:
        seen_by.set("the first")
        current_task().transaction = object()

    begun(leaves)
    begun(lambda: seen.append((seen_by.get(), current_task().transaction)))
    assert seen == [("no request", None)]


def test_request_cannot_start_another() -> None:
    """The other's greenlet would go on in this one's, which may be at another request by then."""
    refused: list[bool] = []

    def begins() -> None:
        with pytest.raises(AssertionError):
            begun(pause)
        refused.append(True)

    begun(begins)
    assert refused


def test_greenlets_beyond_the_pool_size_end_with_their_requests(runners: list[PooledGreenlet]) -> None:
    tasks = [begun(pause) for _ in range(MAX_IDLE + 5)]
    for task in tasks:
        task.switch()
    assert len(runners) == MAX_IDLE
    assert not any(task.is_active for task in tasks)


def test_idle_greenlets_end_silently_with_their_thread(caplog: pytest.LogCaptureFixture) -> None:
    held: list[weakref.ref[PooledGreenlet]] = []

    def thread() -> None:
        begun(lambda: None)
        held.extend(weakref.ref(runner) for runner in greenlets.greenlet_pool.idle)

    other = threading.Thread(target=thread)
    other.start()
    other.join()
    begun(lambda: None)  # greenlet tidies up after a thread when another one switches.
    assert [runner() for runner in held] == [None]
    assert caplog.text == ""
