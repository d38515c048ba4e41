"""Concurrent use of the database on connections other than the test's."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event
from typing import Any

from django.db import connection, transaction

from tests.support.servers import wait_until

Action = Callable[[], Any]


@contextmanager
def other_connection() -> Iterator[Callable[[Action], None]]:
    """Yield a function that starts an action on another connection and waits until it ends or blocks."""
    started: list[Future[None]] = []

    def start(action: Action) -> None:
        started.append(pool.submit(run_and_close, action))
        wait_until(lambda: done_or_blocked(started[-1]))

    with ThreadPoolExecutor(1) as pool:
        yield start
        for future in started:
            future.result(timeout=30)


@contextmanager
def before_commit(action: Action) -> Iterator[None]:
    """Run an action on another connection until it ends or blocks, before the block commits."""
    held: Any = transaction.atomic()
    held._from_testcase = True  # Durable transactions may be part of it, as in Django's TestCase.
    with other_connection() as start, held:
        yield
        start(action)


@contextmanager
def uncommitted(action: Action) -> Iterator[None]:
    """Run an action in a transaction of another connection; roll it back after the block."""
    done, release = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            action()
            done.set()
            release.wait(30)
            transaction.set_rollback(True)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run_and_close, hold)
        try:
            assert done.wait(30)
            yield
        finally:
            release.set()
            future.result()


def run_concurrently(*actions: Action) -> list[Any]:
    """Run actions in threads at the same time, each with its own connection; return the results."""
    start = Barrier(len(actions))

    def run_at_barrier(action: Action) -> Any:
        start.wait(30)
        return run_and_close(action)

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(run_at_barrier, actions))


def in_other_thread(action: Action) -> Any:
    """Run an action in another thread, with its own connection."""
    return run_concurrently(action)[0]


def run_and_close(action: Action) -> Any:
    try:
        return action()
    finally:
        connection.close()


def done_or_blocked(other: Future[None]) -> bool:
    """Return whether an action has ended or waits for a lock of this connection."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return bool(other.done() or cursor.fetchone() != (0,))
