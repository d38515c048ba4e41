"""Concurrent requests on the event loop, isolated from each other's failures."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import hiredis
import pytest
from django.conf import settings
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DataError, IntegrityError
from petstore.event_loop.redis_connection import SharedRedisConnection

from inventory.models import Category, Pet
from petstore.db.monitor import get_response_timeout
from petstore.event_loop.connection import ConnectionFailedError
from petstore.event_loop.connection_pool import ConnectionPool
from petstore.event_loop.greenlets import STARTS_PER_ITERATION, StartLimiter, is_on_loop, wait
from petstore.event_loop.libpq import Statement
from petstore.event_loop.pg_connection import ReadPipeline
from petstore.event_loop.threads import ServingLoop, run_in_thread, run_on_loop
from tests.conftest import COMMITTED
from tests.support.event_loop import Function, run, run_request, serve
from tests.support.servers import RedisServer, redis_server
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
    assert events == [*range(2 * STARTS_PER_ITERATION), -1, 2 * STARTS_PER_ITERATION]


def test_requests_start_in_the_order_of_arrival() -> None:
    events = record_starts(
        2 * STARTS_PER_ITERATION + 1,
        lambda start_limiter, events: start_limiter.start(lambda: events.append(-1)),
    )
    assert events == [*range(2 * STARTS_PER_ITERATION + 1), -1]


def test_blocking_call_runs_in_a_thread_and_off_the_loop_directly() -> None:
    calls: list[tuple[Any, ...]] = [(is_on_loop,), (threading.get_ident,), (int, "no number")]
    was_on_loop, thread, error = serve(*(partial(run_in_thread, *call) for call in calls))
    assert not was_on_loop
    assert thread != threading.get_ident() == run_in_thread(threading.get_ident)
    assert isinstance(error, ValueError)


def test_thread_calls_the_serving_loop_and_without_one_runs_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> list[Any]:
        monkeypatch.setattr(ServingLoop, "current", asyncio.get_running_loop())
        calls = (is_on_loop, threading.get_ident, partial(int, "no number"))
        threads = (asyncio.to_thread(run_on_loop, call) for call in calls)
        return await asyncio.gather(*threads, return_exceptions=True)

    assert not run_on_loop(is_on_loop)
    was_on_loop, thread, error = run(main())
    assert was_on_loop
    assert thread == threading.get_ident()
    assert isinstance(error, ValueError)


@pytest.mark.django_db
def test_query_on_the_loop_is_rejected() -> None:
    (error,) = serve(Category.objects.first)
    assert isinstance(error, SynchronousOnlyOperation)


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
def test_writes_commit_independently() -> None:
    category = Category.objects.get_or_create(name="Engine")[0]
    writers = ConnectionPool("default")
    add = Statement(
        b"add",
        b"INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at)"
        b" VALUES ($1, $2, 'sold', now(), now()) RETURNING id",
    )
    categories = [category.pk if n % 2 else 10**12 for n in range(20)]
    results = serve(*(lambda c=c: writers.fetch_rows(add, ["Rex", c]) for c in categories))
    assert [isinstance(result, IntegrityError) for result in results] == [True, False] * 10
    assert Pet.objects.filter(name="Rex").count() == 10


# Redis


def test_each_command_gets_its_own_reply(redis: RedisServer) -> None:
    pipe = SharedRedisConnection(f"{redis.url}/3", 5)
    echoes = serve(*(lambda n=n: pipe.get_connection().call("ECHO", str(n)) for n in range(100)))
    assert echoes == [str(n).encode() for n in range(100)]


def test_error_reply_affects_only_its_command(redis: RedisServer) -> None:
    pipe = SharedRedisConnection(redis.url, 5)
    results = serve(
        lambda: pipe.get_connection().call("NO-SUCH"), lambda: pipe.get_connection().call("ECHO", "a")
    )
    assert isinstance(results[0], hiredis.ReplyError)
    assert results[1] == b"a"


def test_unreachable_redis_fails_at_once() -> None:
    (error,) = serve(lambda: SharedRedisConnection("redis://127.0.0.1:1", 5).get_connection().call("PING"))
    assert isinstance(error, ConnectionFailedError)


def test_unresponsive_redis_times_out_and_its_connection_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pipe = SharedRedisConnection(f"redis://127.0.0.1:{silent.getsockname()[1]}", 0.2)

        def call() -> bool:
            connection = pipe.get_connection()
            with pytest.raises(ConnectionFailedError):
                connection.call("PING")
            return connection.is_usable

        assert serve(*[call] * 3) == [False] * 3


def test_late_reply_fails_only_its_command() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            await reader.readuntil(b"late\r\n")
            await asyncio.sleep(0.25)
            writer.write(b"$4\r\nslow\r\n")
            await reader.readuntil(b"next\r\n")
            writer.write(b"$4\r\nlate\r\n$4\r\nnext\r\n")

    async def main() -> list[Any]:
        server = await asyncio.start_server(respond, "127.0.0.1")
        pipe = SharedRedisConnection(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", 0.2)

        def echo(text: str) -> Any:
            return run_request(lambda: pipe.get_connection().call("ECHO", text))

        with closing(server):
            replies = await asyncio.gather(echo("slow"), echo("late"), return_exceptions=True)
            return [*replies, await echo("next")]

    slow, late, following = run(main())
    assert (slow, following) == (b"slow", b"next")
    assert isinstance(late, ConnectionFailedError)


def test_connection_without_a_handshake_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(5)
        pipe = SharedRedisConnection(f"redis://:secret@127.0.0.1:{silent.getsockname()[1]}", 0.2)
        assert isinstance(serve(lambda: pipe.get_connection().call("PING"))[0], ConnectionFailedError)
        with silent.accept()[0] as accepted:
            accepted.settimeout(5)
            assert b"AUTH" in accepted.recv(1000)
            assert accepted.recv(1000) == b""


def test_redis_is_reconnected_after_a_restart(redis: RedisServer) -> None:
    pipe = SharedRedisConnection(redis.url, 5)

    async def main() -> list[Any]:
        before = await run_request(lambda: pipe.get_connection().call("ECHO", "before"))
        with suppress(ConnectionFailedError):
            await run_request(
                lambda: pipe.get_connection().call("CLIENT", "KILL", "SKIPME", "no", "TYPE", "normal")
            )
        with suppress(ConnectionFailedError):
            await run_request(lambda: pipe.get_connection().call("PING"))
        return [before, await run_request(lambda: pipe.get_connection().call("ECHO", "after"))]

    assert run(main()) == [b"before", b"after"]


def test_password_is_sent(tmp_path: Any) -> None:
    with redis_server(tmp_path, "--user", "shop", "on", ">secret", "~*", "+@all") as guarded:
        url = guarded.url.replace("redis://", "redis://shop:secret@")
        assert serve(lambda: SharedRedisConnection(url, 5).get_connection().call("ECHO", "a")) == [b"a"]
        (error,) = serve(
            lambda: SharedRedisConnection(url.replace("secret", "wrong"), 5).get_connection().call("PING")
        )
        assert isinstance(error, ConnectionFailedError)
