"""A request on the event loop waits for its turn only so long; then it gets a 503."""

import asyncio
import threading
from typing import Any

from django.db import OperationalError

from petstore.api.errors import ErrorCode, as_api_error
from petstore.loop import waiting
from petstore.loop.postgresql import Statement
from petstore.loop.threads import in_thread
from petstore.loop.writers import Writers
from tests.conftest import COMMITTED
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import run, serve, turn

SLEEP = Statement(b"sleep", b"SELECT pg_sleep(0.5)")


def test_request_that_no_thread_takes_in_time_is_a_503(settings: Any) -> None:
    settings.QUEUE_TIMEOUT = 500
    release = threading.Event()
    begun = []

    def block() -> str:
        begun.append(1)
        release.wait(10)
        return "served"

    def ask() -> str:
        try:
            return in_thread(block)
        finally:  # The first to end is the one that no thread takes: the others wait for it.
            release.set()

    count = settings.THREADS
    *served, refused = serve(*[ask] * (count + 1))
    assert served == ["served"] * count  # What has begun goes on, however long it takes.
    assert isinstance(refused, OperationalError)
    assert str(refused) == waiting.QUEUED_TOO_LONG
    assert as_api_error(refused).error is ErrorCode.SERVICE_UNAVAILABLE
    assert len(begun) == count


@NEEDS_POSTGRESQL
@COMMITTED
def test_write_that_finds_no_connection_in_time_is_a_503(settings: Any) -> None:
    settings.QUEUE_TIMEOUT = 10_000
    settings.WRITE_CONNECTIONS = count = 3
    writers = Writers("default")

    async def at_once(requests: int) -> list[Any]:
        turns = (turn(lambda: writers.rows(SLEEP, [])) for _ in range(requests))
        return await asyncio.gather(*turns, return_exceptions=True)

    async def main() -> list[Any]:
        await at_once(count)  # Every connection is open now.
        settings.QUEUE_TIMEOUT = 100
        return await at_once(count + 2)

    found = run(main())
    assert [isinstance(one, OperationalError) for one in found].count(True) == 2
    assert len(writers._idle) == count
    assert not writers._waiting
