"""Actions of other database connections while a test's own transaction is open."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event
from typing import Any

from django.db import connection, transaction

from tests.support.servers import wait_until

Act = Callable[[], Any]


@contextmanager
def another() -> Iterator[Callable[[Act], None]]:
    """Yield a function that runs an action on another connection, until it is done or blocked."""
    begun: list[Future[None]] = []

    def begin(act: Act) -> None:
        begun.append(pool.submit(by_another, act))
        wait_until(lambda: done_or_blocked(begun[-1]))

    with ThreadPoolExecutor(1) as pool:
        yield begin
        for one in begun:
            one.result(timeout=30)


@contextmanager
def meanwhile(act: Act) -> Iterator[None]:
    """Run an action on another connection, until it is done or blocked, before the block's commit."""
    with another() as begin, transaction.atomic():
        yield
        begin(act)


@contextmanager
def held(act: Act) -> Iterator[None]:
    """Hold an action's transaction open on another connection, and roll it back after the block."""
    done, leave = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            act()
            done.set()
            leave.wait(30)
            transaction.set_rollback(True)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(by_another, hold)
        try:
            assert done.wait(30)
            yield
        finally:
            leave.set()
            holding.result()


def at_once(*acts: Act) -> list[Any]:
    """Run actions in concurrent threads, each with its own connection; their results in order."""
    start = Barrier(len(acts))

    def act_with_the_others(act: Act) -> Any:
        start.wait(30)
        return by_another(act)

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act_with_the_others, acts))


def aside(act: Act) -> Any:
    """Run in another thread, with its own connection."""
    return at_once(act)[0]


def by_another(act: Act) -> Any:
    try:
        return act()
    finally:
        connection.close()


def done_or_blocked(other: Future[None]) -> bool:
    """Whether an action is done, or waits for a lock of this connection."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return bool(other.done() or cursor.fetchone() != (0,))
