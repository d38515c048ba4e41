"""What another connection to PostgreSQL does while a test holds locks there."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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


def by_another(act: Act) -> None:
    try:
        act()
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
