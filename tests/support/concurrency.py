"""Concurrent use of the database by other connections than the test's."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event
from typing import Any

from django.db import connection, transaction

from tests.support.servers import wait_until

Act = Callable[[], Any]


@contextmanager
def other_connection() -> Iterator[Callable[[Act], None]]:
    """Yield a function that starts an action on another connection and waits until it ends or blocks."""
    started: list[Future[None]] = []

    def start(act: Act) -> None:
        started.append(pool.submit(act_and_close, act))
        wait_until(lambda: done_or_blocked(started[-1]))

    with ThreadPoolExecutor(1) as pool:
        yield start
        for one in started:
            one.result(timeout=30)


@contextmanager
def before_commit(act: Act) -> Iterator[None]:
    """Act on another connection, until that ends or blocks, before the block commits."""
    with other_connection() as start, transaction.atomic():
        yield
        start(act)


@contextmanager
def uncommitted(act: Act) -> Iterator[None]:
    """Act in a transaction of another connection, which is rolled back after the block."""
    done, leave = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            act()
            done.set()
            leave.wait(30)
            transaction.set_rollback(True)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(act_and_close, hold)
        try:
            assert done.wait(30)
            yield
        finally:
            leave.set()
            holding.result()


def run_concurrently(*acts: Act) -> list[Any]:
    """Act in threads at the same time, each with its own connection; returns the results."""
    start = Barrier(len(acts))

    def act_with_the_others(act: Act) -> Any:
        start.wait(30)
        return act_and_close(act)

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act_with_the_others, acts))


def in_other_thread(act: Act) -> Any:
    """Act in another thread, with its own connection."""
    return run_concurrently(act)[0]


def act_and_close(act: Act) -> Any:
    try:
        return act()
    finally:
        connection.close()


def done_or_blocked(other: Future[None]) -> bool:
    """Whether an action has ended, or waits for a lock of this connection."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return bool(other.done() or cursor.fetchone() != (0,))
