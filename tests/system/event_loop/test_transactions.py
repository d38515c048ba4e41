"""Transactions on the event loop are atomic and use one connection."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import DataError, InternalError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from inventory.models import Category, Pet
from petstore.db.monitor import Server, servers
from petstore.event_loop import opening
from petstore.event_loop.compiled_writes import atomic, insert, refresh, update
from petstore.event_loop.connection_pool import ConnectionPool
from petstore.event_loop.greenlets import is_on_loop, wait
from petstore.event_loop.libpq import Statement
from petstore.event_loop.opening import connect
from petstore.event_loop.pg_connection import PostgresqlConnection, ReadPipeline
from tests.conftest import COMMITTED
from tests.support.concurrency import in_other_thread
from tests.support.event_loop import Function, run, run_request, serve, terminate_backend
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = [pytest.mark.django_db, NEEDS_POSTGRESQL]

ADD = Statement(b"add", b"INSERT INTO inventory_category (name, description) VALUES ($1, '') RETURNING id")
OWN = Statement(b"own", b"SELECT pg_backend_pid()")
DIVIDE = Statement(b"divide", b"SELECT 10 / $1")
LENGTH = Statement(b"length", b"SELECT length($1)")
SLEEP = Statement(b"sleep", b"SELECT pg_sleep(0.02)")
ADDED = ["one", "two", "three"]
FORGET = Statement(b"forget", b"DEALLOCATE add")
FORGET_ALL = Statement(b"forget_all", b"DEALLOCATE ALL")


@pytest.fixture
def writers(db: None) -> Iterator[ConnectionPool]:
    """Its transactions commit, unlike the test's, so their rows are deleted at the end."""
    yield ConnectionPool("default")
    in_other_thread(Category.objects.filter(name__in=ADDED).delete)


def add_two(writers: ConnectionPool, between: Function) -> Function:
    """A transaction that adds two categories and calls `between` in between."""

    def both() -> None:
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            between()
            writers.fetch_rows(ADD, ["two"])

    return both


def names() -> set[str]:
    return set(Category.objects.filter(name__in=ADDED).values_list("name", flat=True))


def test_nothing_is_visible_before_the_commit(writers: ConnectionPool) -> None:
    seen: list[set[str]] = []
    serve(add_two(writers, lambda: seen.append(in_other_thread(names))))
    assert (seen, names()) == ([set()], {"one", "two"})


def test_exception_rolls_back_only_its_transaction(writers: ConnectionPool) -> None:
    failed, _ = serve(add_two(writers, lambda: 1 / 0), lambda: writers.fetch_rows(ADD, ["three"]))
    assert isinstance(failed, ZeroDivisionError)
    assert names() == {"three"}


def test_concurrent_transactions_have_a_connection_each(writers: ConnectionPool) -> None:
    stayed = []

    def look_twice() -> None:
        with writers.transaction():
            first = writers.fetch_rows(OWN, [])
            wait(asyncio.sleep(0.001))
            stayed.append(writers.fetch_rows(OWN, []) == first)

    assert serve(*[look_twice] * 20) == [None] * 20
    assert stayed == [True] * 20


def test_writes_share_the_open_connections_if_the_server_accepts_no_more(
    writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = itertools.count(1)

    def connect_twice(alias: str) -> BaseDatabaseWrapper:
        if next(taken) > 2:
            raise OperationalError("sorry, too many clients already")
        return connect(alias)

    monkeypatch.setattr(opening, "connect", connect_twice)

    async def twelve_at_once() -> list[Any]:
        tasks = (run_request(lambda: writers.fetch_rows(SLEEP, [])) for _ in range(12))
        return await asyncio.gather(*tasks, return_exceptions=True)

    async def twice() -> list[Any]:  # A failed connection is not used the second time.
        return await twelve_at_once() + await twelve_at_once()

    assert run(twice()) == [[("",)]] * 24


def test_write_is_sent_at_once(writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    flush = PostgresqlConnection._flush

    def note_and_flush(pipe: PostgresqlConnection) -> None:
        happened.append("left")
        flush(pipe)

    def ask() -> None:
        writers.fetch_rows(OWN, [])  # Opens the connection, and prepares the statement.
        happened.clear()
        asyncio.get_running_loop().call_soon(happened.append, "next iteration")
        writers.fetch_rows(OWN, [])

    monkeypatch.setattr(PostgresqlConnection, "_flush", note_and_flush)
    assert serve(ask) == [None]
    assert happened == ["left", "next iteration"]


def watching_requests(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Record readers and writers that requests change: libuv could crash."""
    found: list[str] = []

    def noted(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def note(*args: Any) -> Any:
            if is_on_loop():
                found.append(name)
            return change(*args)

        return note

    for name in ("add_reader", "remove_reader", "add_writer", "remove_writer"):
        setattr(loop, name, noted(name, getattr(loop, name)))
    return found


def test_only_the_loop_changes_its_readers_and_writers(writers: ConnectionPool) -> None:
    long = "x" * 10_000_000  # More than a socket takes at once.
    reader = ReadPipeline("default")

    def close_what_others_wait_for() -> None:
        reader.get_connection().close()

    async def main() -> tuple[list[str], list[Any]]:
        found = watching_requests(asyncio.get_running_loop())
        asked = [lambda: reader.fetch_rows(SLEEP, []), lambda: writers.fetch_rows(LENGTH, [long])]
        first = await asyncio.gather(*map(run_request, asked))
        again = [*asked, close_what_others_wait_for, *asked, add_two(writers, lambda: 1 / 0)]
        return found, [*first, *await asyncio.gather(*map(run_request, again), return_exceptions=True)]

    found, answers = run(main())
    assert isinstance(answers.pop(), ZeroDivisionError)
    assert [answer for answer in answers if answer is not None] == [[("",)], [(len(long),)]] * 3
    assert found == []


def test_transaction_does_not_continue_on_another_connection(writers: ConnectionPool) -> None:
    def lose() -> None:
        ((process,),) = writers.fetch_rows(OWN, [])
        terminate_backend(process)
        with suppress(OperationalError):
            writers.fetch_rows(OWN, [])

    (outcome,) = serve(add_two(writers, lose))
    assert isinstance(outcome, OperationalError)
    assert names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_transaction_with_a_caught_failure_does_not_commit(writers: ConnectionPool) -> None:
    def fail() -> None:
        with suppress(DataError):
            writers.fetch_rows(DIVIDE, [0])

    def one_only() -> None:
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            fail()

    (outcome,) = serve(one_only)
    assert isinstance(outcome, OperationalError)
    assert names() == set()


def test_nested_transaction_is_part_of_the_outer_one(writers: ConnectionPool) -> None:
    def outer() -> None:
        with writers.transaction():
            add_two(writers, lambda: None)()
            raise ZeroDivisionError

    serve(outer)
    assert names() == set()


def test_deallocated_statement_fails_the_transaction(writers: ConnectionPool) -> None:
    (outcome,) = serve(add_two(writers, lambda: writers.fetch_rows(FORGET, [])))
    assert isinstance(outcome, OperationalError)
    assert names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_statement_sent_without_waiting_is_committed(writers: ConnectionPool) -> None:
    def send_both() -> None:
        writers.fetch_rows(OWN, [])
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            writers.send(ADD, ["two"])

    assert serve(send_both) == [None]
    assert names() == {"one", "two"}


@pytest.mark.parametrize("waits", [True, False])
def test_failed_statement_sent_without_waiting_rolls_back(writers: ConnectionPool, waits: bool) -> None:
    def fail_unheard() -> list[Any]:
        with suppress(DataError), writers.transaction():
            writers.fetch_rows(DIVIDE, [5])
            writers.fetch_rows(ADD, ["three"])
            writers.send(DIVIDE, [0])
            writers.send(ADD, ["one"])
            if waits:
                writers.fetch_rows(ADD, ["two"])
            return ["It was committed."]
        return writers.fetch_rows(DIVIDE, [2])  # The connection is of use.

    assert serve(fail_unheard) == [[(5,)]]
    assert names() == set()


def test_exception_after_an_unnoticed_failure_rolls_back(writers: ConnectionPool) -> None:
    def fail() -> None:
        with writers.transaction():
            writers.fetch_rows(DIVIDE, [5])
            writers.send(DIVIDE, [0])
            raise ZeroDivisionError

    outcome, after = serve(fail, lambda: writers.fetch_rows(DIVIDE, [2]))
    assert isinstance(outcome, ZeroDivisionError)
    assert after == [(5,)]


@pytest.mark.parametrize("waits", [True, False])
def test_deallocated_statement_sent_without_waiting_fails(writers: ConnectionPool, waits: bool) -> None:
    def send_forgotten() -> None:
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            writers.fetch_rows(FORGET, [])
            writers.send(ADD, ["two"])
            if waits:
                writers.fetch_rows(OWN, [])

    (outcome,) = serve(send_forgotten)
    assert isinstance(outcome, OperationalError)
    assert names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_connection_is_usable_after_deallocate_all(writers: ConnectionPool) -> None:
    def forget_and_fail() -> None:
        with suppress(ZeroDivisionError), writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            writers.fetch_rows(FORGET_ALL, [])
            writers.send(ADD, ["two"])
            raise ZeroDivisionError
        writers.fetch_rows(ADD, ["three"])

    assert serve(forget_and_fail) == [None]
    assert names() == {"three"}


def test_caught_exception_of_a_nested_transaction_prevents_the_commit(writers: ConnectionPool) -> None:
    def outer() -> None:
        with writers.transaction(), suppress(ZeroDivisionError):
            add_two(writers, lambda: 1 / 0)()

    (outcome,) = serve(outer)
    assert isinstance(outcome, OperationalError)
    assert names() == set()


def test_pooled_connection_from_before_an_outage_is_closed(
    writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("default")

    def several() -> list[Any]:
        before = writers.fetch_rows(OWN, [])
        server.generation += 1  # As after a failover.
        monkeypatch.setitem(servers, "default", server)
        with writers.transaction():
            first = writers.fetch_rows(OWN, [])
        return [before == first, first == writers.fetch_rows(OWN, [])]

    assert serve(several) == [[False, True]]


def test_pooled_connection_is_not_reused_across_an_outage(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WRITE_CONNECTIONS = 2
    writers, server = ConnectionPool("default"), Server("default")
    attempts: list[str] = []

    def connect_but_not_the_second(alias: str) -> BaseDatabaseWrapper:
        attempts.append(alias)
        if len(attempts) == 2:
            raise OperationalError("sorry, too many clients already")
        return connect(alias)

    def lose() -> Any:
        with writers.transaction():
            process = writers.fetch_rows(OWN, [])
            while len(attempts) < 2:
                wait(asyncio.sleep(0.001))
            server.generation += 1
            monkeypatch.setitem(servers, "default", server)
        return process

    def follow() -> Any:
        with writers.transaction():
            return writers.fetch_rows(OWN, [])

    monkeypatch.setattr(opening, "connect", connect_but_not_the_second)
    lost, process = serve(lose, follow)
    assert lost != process


def test_connection_to_a_standby_is_closed(writers: ConnectionPool) -> None:
    read_only = Statement(b"read_only", b"SET TRANSACTION READ ONLY")

    def write() -> list[Any]:
        before = writers.fetch_rows(OWN, [])
        with suppress(InternalError), writers.transaction():
            writers.fetch_rows(read_only, [])
            writers.fetch_rows(ADD, ["one"])
        return [before == writers.fetch_rows(OWN, [])]

    assert serve(write) == [[False]]
    assert names() == set()


@COMMITTED
def test_atomic_functions_work_on_and_off_the_loop() -> None:
    category = Category.objects.create(name="one")

    @atomic
    def rename(then: Callable[[], Any]) -> tuple[bool, Pet]:
        pet = insert(Pet(name="Rex", category_id=category.pk))
        assert update(Pet, {"pk": pet.pk, "name": "Rex"}, name="Max", status="sold") == 1
        assert update(Pet, {"pk": pet.pk, "name": "Rex"}, name="Tom") == 0
        known = Pet(pk=pet.pk)
        refresh(known, lock=True)
        assert (known.name, known.status, known.created_at) == ("Max", "sold", pet.created_at)
        then()
        return is_on_loop(), known

    for on_the_loop in (True, False):
        with suppress(ZeroDivisionError):
            serve(lambda: rename(lambda: 1 / 0)) if on_the_loop else rename(lambda: 1 / 0)
        assert not Pet.objects.exists()
        was_there, pet = serve(lambda: rename(list))[0] if on_the_loop else rename(list)
        assert was_there == on_the_loop
        assert Pet.objects.get() == pet
        pet.delete()


def test_refresh_of_a_missing_row_raises_does_not_exist() -> None:
    (outcome,) = serve(lambda: refresh(Pet(pk=1)))
    assert isinstance(outcome, Pet.DoesNotExist)
