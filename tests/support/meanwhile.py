"""What other connections to the database do while a test has its own."""

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
    """Yield what begins to do something by another connection, and returns when that is done or waits."""
    begun: list[Future[None]] = []

    def begin(act: Act) -> None:
        begun.append(pool.submit(by_another, act))
        wait_until(lambda: done_or_waiting(begun[-1]))

    with ThreadPoolExecutor(1) as pool:
        yield begin
        for one in begun:
            one.result(timeout=30)


@contextmanager
def meanwhile(act: Act) -> Iterator[None]:
    """Do something by another connection, until it is done or waits, before the block's commit."""
    with another() as begin, transaction.atomic():
        yield
        begin(act)


@contextmanager
def held(act: Act) -> Iterator[None]:
    """Do something in a transaction of another connection, and undo it after the block."""
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
    """Act in threads at the same instant, each with a connection of its own; return what each returns."""
    start = Barrier(len(acts))

    def act_with_the_others(act: Act) -> Any:
        start.wait(30)
        return by_another(act)

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act_with_the_others, acts))


def aside(act: Act) -> Any:
    """Act in another thread, with a connection of its own."""
    return at_once(act)[0]


def by_another(act: Act) -> Any:
    try:
        return act()
    finally:
        connection.close()


def done_or_waiting(other: Future[None]) -> bool:
    """Tell whether something is done, or waits for what this connection has locked."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return bool(other.done() or cursor.fetchone() != (0,))
