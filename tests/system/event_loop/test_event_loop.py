"""Concurrent requests on the event loop, isolated from each other's failures."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DataError, IntegrityError, connection

from inventory.models import Category, Pet
from petstore.db.event_loop.counting import CountingConnections
from petstore.db.event_loop.greenlets import STARTS_PER_ITERATION, StartLimiter, wait
from petstore.db.event_loop.libpq import Statement
from petstore.db.event_loop.shared_connection import ReadPipeline
from petstore.db.monitor import get_response_timeout
from tests.conftest import COMMITTED
from tests.support.event_loop import Function, run, run_request, serve
from tests.support.skips import NEEDS_POSTGRESQL

DOUBLE = Statement(b"double", b"SELECT $1 * 2")
DIVIDE = Statement(b"divide", b"SELECT 10 / $1")


# Waiting


def test_waiting_request_lets_others_continue() -> None:
    order = []

    def first() -> None:
        order.append("first starts")
        wait(asyncio.sleep(0))
        order.append("first ends")

    def second() -> None:
        order.append("second")

    serve(first, second)
    assert order == ["first starts", "second", "first ends"]


def record_starts(count: int, callback: Callable[[StartLimiter, list[int]], None]) -> list[int]:
    """Start requests at once, alongside another callback, and return the order of events."""
    events: list[int] = []

    async def main() -> None:
        start_limiter = StartLimiter()
        for number in range(count):
            start_limiter.start(partial(events.append, number))
        asyncio.get_running_loop().call_soon(callback, start_limiter, events)
        for _ in range(count):
            await asyncio.sleep(0)

    run(main())
    return events


def test_limited_number_of_requests_start_per_iteration() -> None:
    events = record_starts(2 * STARTS_PER_ITERATION + 1, lambda _, events: events.append(-1))
    first = range(STARTS_PER_ITERATION)
    assert events == [*first, -1, *range(len(first), 2 * len(first) + 1)]


def test_requests_start_in_the_order_of_arrival() -> None:
    events = record_starts(
        2 * STARTS_PER_ITERATION + 1,
        lambda start_limiter, events: start_limiter.start(lambda: events.append(-1)),
    )
    assert events == [*range(2 * STARTS_PER_ITERATION + 1), -1]


@pytest.mark.django_db
def test_query_on_the_loop_outside_a_request_is_rejected() -> None:
    async def main() -> None:
        for query in (Category.objects.first, Category(name="One").save, connection.ensure_connection):
            with pytest.raises(SynchronousOnlyOperation):
                query()

    run(main())


# PostgreSQL


def make_read(pipe: ReadPipeline, statement: Statement, value: int) -> Function:
    return lambda: pipe.fetch_rows(statement, [value])


@pytest.fixture
def pipe(django_db_blocker: Any) -> Iterator[ReadPipeline]:
    """Unblocks database access, because `make quick` creates no database."""
    with django_db_blocker.unblock():
        yield ReadPipeline("default")


def test_statement_timeout_ends_before_the_response_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "STATEMENT_TIMEOUT", 5_000)
    assert get_response_timeout("default") == 6


@NEEDS_POSTGRESQL
def test_each_read_gets_its_own_result(pipe: ReadPipeline) -> None:
    assert serve(*(make_read(pipe, DOUBLE, n) for n in range(100))) == [[(2 * n,)] for n in range(100)]


@NEEDS_POSTGRESQL
def test_failing_statement_fails_no_other(pipe: ReadPipeline) -> None:
    def prepare() -> list[Any]:
        return [pipe.fetch_rows(DOUBLE, [1]), pipe.fetch_rows(DIVIDE, [5])]

    async def main() -> tuple[Any, list[Any]]:
        before = await run_request(prepare)
        reads = [make_read(pipe, DIVIDE if n == 2 else DOUBLE, 0 if n == 2 else n) for n in range(5)]
        return before, await asyncio.gather(*map(run_request, reads), return_exceptions=True)

    before, after = run(main())
    assert before == [[(2,)], [(2,)]]
    assert isinstance(after.pop(2), DataError)
    assert after == [[(0,)], [(2,)], [(6,)], [(8,)]]


@NEEDS_POSTGRESQL
def test_statement_that_cannot_be_prepared_fails_no_other(pipe: ReadPipeline) -> None:
    wrong = Statement(b"wrong", b"SELECT nothing FROM nowhere WHERE $1 = 1")
    results = serve(make_read(pipe, wrong, 1), make_read(pipe, DOUBLE, 1), make_read(pipe, DOUBLE, 2))
    assert type(results[0]).__name__ == "ProgrammingError"
    assert results[1:] == [[(2,)], [(4,)]]


@NEEDS_POSTGRESQL
def test_deallocated_statement_is_prepared_again(pipe: ReadPipeline) -> None:
    def read_twice() -> list[Any]:
        first = pipe.fetch_rows(DOUBLE, [1])
        with suppress(Exception):
            pipe.fetch_rows(Statement(b"all", b"DEALLOCATE ALL"), [])
        return [first, pipe.fetch_rows(DOUBLE, [2])]

    assert serve(read_twice) == [[[(2,)], [(4,)]]]


@COMMITTED
@NEEDS_POSTGRESQL
def test_statements_that_count_for_groups_waiting_for_locks_are_transactions_of_their_own() -> None:
    async def main() -> list[Any]:
        counting = CountingConnections()
        for group in "ab":
            counting._block(group, float("inf"))
        get_id = Statement(b"", b"SELECT pg_current_xact_id()::text")
        return await asyncio.gather(
            *(run_request(partial(counting.fetch_rows, group, get_id, [])) for group in "aabb")
        )

    assert len({row for rows in run(main()) for row in rows}) == 4


@COMMITTED
@NEEDS_POSTGRESQL
def test_writes_commit_independently() -> None:
    category = Category.objects.get_or_create(name="Engine")[0]
    categories = [category.pk if n % 2 else 10**12 for n in range(20)]
    results = serve(
        *(partial(Pet.objects.create_with_event, name="Rex", category_id=n) for n in categories)
    )
    assert [isinstance(result, IntegrityError) for result in results] == [True, False] * 10
    assert Pet.objects.filter(name="Rex").count() == 10
