"""The event loop's way: many requests wait at once, and none pays for another's failure."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import hiredis
import pytest
from django.conf import settings
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DataError, IntegrityError

from inventory.models import Category, Pet
from petstore.db.monitor import response_timeout
from petstore.event_loop.connection import ConnectionFailedError
from petstore.event_loop.connection_pool import ConnectionPool
from petstore.event_loop.greenlets import STARTS_PER_ITERATION, StartLimiter, on_loop, wait
from petstore.event_loop.libpq import Statement
from petstore.event_loop.pg_connection import ReadPipeline
from petstore.event_loop.redis_connection import SharedRedisConnection
from petstore.event_loop.threads import in_thread
from tests.conftest import COMMITTED
from tests.support.servers import RedisServer, redis_server
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import Function, run, serve, turn

DOUBLE = Statement(b"double", b"SELECT $1 * 2")
DIVIDE = Statement(b"divide", b"SELECT 10 / $1")


# --- Waiting -------------------------------------------------------------------------------------


def test_a_request_that_waits_lets_others_go_on() -> None:
    order = []

    def first() -> None:
        order.append("first begins")
        wait(asyncio.sleep(0))
        order.append("first ends")

    def second() -> None:
        order.append("second")

    serve(first, second)
    assert order == ["first begins", "second", "first ends"]


def entered(count: int, beside: Callable[[StartLimiter, list[int]], None]) -> list[int]:
    """Let so many requests enter at once, and something else be due then; return what happened."""
    happened: list[int] = []

    async def main() -> None:
        start_limiter = StartLimiter()
        for number in range(count):
            start_limiter.start(partial(happened.append, number))
        asyncio.get_running_loop().call_soon(beside, start_limiter, happened)
        for _ in range(count):
            await asyncio.sleep(0)

    run(main())
    return happened


def test_few_begin_in_a_turn_and_those_under_way_go_on_between() -> None:
    happened = entered(2 * STARTS_PER_ITERATION + 1, lambda _, happened: happened.append(-1))
    assert happened == [*range(2 * STARTS_PER_ITERATION), -1, 2 * STARTS_PER_ITERATION]


def test_a_newcomer_stands_behind_those_who_wait() -> None:
    happened = entered(
        2 * STARTS_PER_ITERATION + 1,
        lambda start_limiter, happened: start_limiter.start(lambda: happened.append(-1)),
    )
    assert happened == [*range(2 * STARTS_PER_ITERATION + 1), -1]


def test_what_blocks_runs_in_another_thread_and_outside_the_loop_at_once() -> None:
    calls: list[tuple[Any, ...]] = [(on_loop,), (threading.get_ident,), (int, "no number")]
    on_the_loop, thread, error = serve(*(partial(in_thread, *call) for call in calls))
    assert not on_the_loop
    assert thread != threading.get_ident() == in_thread(threading.get_ident)
    assert isinstance(error, ValueError)


@pytest.mark.django_db
def test_a_query_on_the_loop_is_refused_rather_than_hold_up_all() -> None:
    (error,) = serve(Category.objects.first)
    assert isinstance(error, SynchronousOnlyOperation)


# --- PostgreSQL ----------------------------------------------------------------------------------


def rows(pipe: ReadPipeline, statement: Statement, value: int) -> Function:
    return lambda: pipe.rows(statement, [value])


@pytest.fixture
def pipe(django_db_blocker: Any) -> Iterator[ReadPipeline]:
    """A way to whichever database there is: `make quick` makes none."""
    with django_db_blocker.unblock():
        yield ReadPipeline("default")


def test_the_server_gives_up_before_we_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "STATEMENT_TIMEOUT", 5_000)
    assert response_timeout("default") == 6


@NEEDS_POSTGRESQL
def test_each_gets_the_answer_to_its_own_question(pipe: ReadPipeline) -> None:
    assert serve(*(rows(pipe, DOUBLE, n) for n in range(100))) == [[(2 * n,)] for n in range(100)]


@NEEDS_POSTGRESQL
def test_a_statement_that_fails_takes_nobody_along(pipe: ReadPipeline) -> None:
    def one_after_the_other() -> list[Any]:
        return [pipe.rows(DOUBLE, [1]), pipe.rows(DIVIDE, [5])]  # Both are prepared now.

    async def main() -> tuple[Any, list[Any]]:
        before = await turn(one_after_the_other)
        questions = [rows(pipe, DIVIDE if n == 2 else DOUBLE, 0 if n == 2 else n) for n in range(5)]
        return before, await asyncio.gather(*map(turn, questions), return_exceptions=True)

    before, after = run(main())
    assert before == [[(2,)], [(2,)]]
    assert isinstance(after.pop(2), DataError)
    assert after == [[(0,)], [(2,)], [(6,)], [(8,)]]


@NEEDS_POSTGRESQL
def test_a_statement_that_cannot_be_prepared_takes_nobody_along(pipe: ReadPipeline) -> None:
    wrong = Statement(b"wrong", b"SELECT nothing FROM nowhere WHERE $1 = 1")
    found = serve(rows(pipe, wrong, 1), rows(pipe, DOUBLE, 1), rows(pipe, DOUBLE, 2))
    assert type(found[0]).__name__ == "ProgrammingError"
    assert found[1:] == [[(2,)], [(4,)]]


@NEEDS_POSTGRESQL
def test_a_statement_that_the_server_forgot_is_prepared_again(pipe: ReadPipeline) -> None:
    def ask() -> list[Any]:
        first = pipe.rows(DOUBLE, [1])
        with suppress(Exception):
            pipe.rows(Statement(b"all", b"DEALLOCATE ALL"), [])
        return [first, pipe.rows(DOUBLE, [2])]

    assert serve(ask) == [[[(2,)], [(4,)]]]


@COMMITTED
@NEEDS_POSTGRESQL
def test_writes_commit_each_for_itself() -> None:
    category = Category.objects.get_or_create(name="Engine")[0]
    writers = ConnectionPool("default")
    add = Statement(
        b"add",
        b"INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at)"
        b" VALUES ($1, $2, 'sold', now(), now()) RETURNING id",
    )
    categories = [category.pk if n % 2 else 10**12 for n in range(20)]
    found = serve(*(lambda c=c: writers.rows(add, ["Rex", c]) for c in categories))
    assert [isinstance(one, IntegrityError) for one in found] == [True, False] * 10
    assert Pet.objects.filter(name="Rex").count() == 10


# --- Redis ---------------------------------------------------------------------------------------


def test_redis_answers_each_its_own_question(redis: RedisServer) -> None:
    pipe = SharedRedisConnection(f"{redis.url}/3", 5)
    echoes = serve(*(lambda n=n: pipe.connected().call("ECHO", str(n)) for n in range(100)))
    assert echoes == [str(n).encode() for n in range(100)]


def test_an_error_of_redis_is_its_own_questions(redis: RedisServer) -> None:
    pipe = SharedRedisConnection(redis.url, 5)
    found = serve(lambda: pipe.connected().call("NO-SUCH"), lambda: pipe.connected().call("ECHO", "a"))
    assert isinstance(found[0], hiredis.ReplyError)
    assert found[1] == b"a"


def test_redis_that_is_not_there_is_told_at_once() -> None:
    (error,) = serve(lambda: SharedRedisConnection("redis://127.0.0.1:1", 5).connected().call("PING"))
    assert isinstance(error, ConnectionFailedError)


def test_redis_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pipe = SharedRedisConnection(f"redis://127.0.0.1:{silent.getsockname()[1]}", 0.2)
        errors = serve(*[lambda: pipe.connected().call("PING")] * 3)
    assert [type(error) for error in errors] == [ConnectionFailedError] * 3


def test_a_connection_that_is_not_greeted_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(5)
        pipe = SharedRedisConnection(f"redis://:secret@127.0.0.1:{silent.getsockname()[1]}", 0.2)
        assert isinstance(serve(lambda: pipe.connected().call("PING"))[0], ConnectionFailedError)
        with silent.accept()[0] as accepted:
            accepted.settimeout(5)
            assert b"AUTH" in accepted.recv(1000)
            assert accepted.recv(1000) == b""


def test_after_a_restart_redis_is_asked_again(redis: RedisServer) -> None:
    pipe = SharedRedisConnection(redis.url, 5)

    async def main() -> list[Any]:
        before = await turn(lambda: pipe.connected().call("ECHO", "before"))
        with suppress(ConnectionFailedError):
            await turn(lambda: pipe.connected().call("CLIENT", "KILL", "SKIPME", "no", "TYPE", "normal"))
        with suppress(ConnectionFailedError):
            await turn(lambda: pipe.connected().call("PING"))
        return [before, await turn(lambda: pipe.connected().call("ECHO", "after"))]

    assert run(main()) == [b"before", b"after"]


def test_a_password_is_sent(tmp_path: Any) -> None:
    with redis_server(tmp_path, "--user", "shop", "on", ">secret", "~*", "+@all") as guarded:
        url = guarded.url.replace("redis://", "redis://shop:secret@")
        assert serve(lambda: SharedRedisConnection(url, 5).connected().call("ECHO", "a")) == [b"a"]
        (error,) = serve(
            lambda: SharedRedisConnection(url.replace("secret", "wrong"), 5).connected().call("PING")
        )
        assert isinstance(error, ConnectionFailedError)
