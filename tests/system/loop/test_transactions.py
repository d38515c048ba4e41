"""Transactions on the event loop: all of it or nothing, on one connection, whatever happens between."""

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
from petstore.event_loop.greenlets import on_loop, wait
from petstore.event_loop.libpq import Statement
from petstore.event_loop.opening import connect
from petstore.event_loop.pg_connection import PostgresqlConnection, ReadPipeline
from tests.conftest import COMMITTED
from tests.support.meanwhile import aside
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import Function, end_connection, run, serve, turn

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
    """They commit beside the test's own transaction, so what is left of them is deleted at the end."""
    yield ConnectionPool("default")
    aside(Category.objects.filter(name__in=ADDED).delete)


def add_two(writers: ConnectionPool, between: Function) -> Function:
    """Return a transaction that adds two categories, and does something between."""

    def both() -> None:
        with writers.transaction():
            writers.rows(ADD, ["one"])
            between()
            writers.rows(ADD, ["two"])

    return both


def names() -> set[str]:
    """Return which of the categories are there."""
    return set(Category.objects.filter(name__in=ADDED).values_list("name", flat=True))


def test_nothing_shows_before_the_commit(writers: ConnectionPool) -> None:
    seen: list[set[str]] = []
    serve(add_two(writers, lambda: seen.append(aside(names))))
    assert (seen, names()) == ([set()], {"one", "two"})


def test_an_exception_undoes_it_and_nothing_after_it(writers: ConnectionPool) -> None:
    failed, _ = serve(add_two(writers, lambda: 1 / 0), lambda: writers.rows(ADD, ["three"]))
    assert isinstance(failed, ZeroDivisionError)
    assert names() == {"three"}


def test_those_that_come_at_once_have_a_connection_each(writers: ConnectionPool) -> None:
    stayed = []

    def look_twice() -> None:
        with writers.transaction():
            first = writers.rows(OWN, [])
            wait(asyncio.sleep(0.001))
            stayed.append(writers.rows(OWN, []) == first)

    assert serve(*[look_twice] * 20) == [None] * 20
    assert stayed == [True] * 20


def test_where_the_server_takes_no_more_connections_writes_wait_for_those_there_are(
    writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = itertools.count(1)

    def connect_twice(alias: str) -> BaseDatabaseWrapper:
        if next(taken) > 2:
            raise OperationalError("sorry, too many clients already")
        return connect(alias)

    monkeypatch.setattr(opening, "connect", connect_twice)

    async def twelve_at_once() -> list[Any]:
        turns = (turn(lambda: writers.rows(SLEEP, [])) for _ in range(12))
        return await asyncio.gather(*turns, return_exceptions=True)

    async def twice() -> list[Any]:  # What could not be opened is not the first to be taken again.
        return await twelve_at_once() + await twelve_at_once()

    assert run(twice()) == [[("",)]] * 24


def test_what_is_asked_leaves_at_once_as_nobody_shares_the_connection(
    writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    flush = PostgresqlConnection._flush

    def note_and_flush(pipe: PostgresqlConnection) -> None:
        happened.append("left")
        flush(pipe)

    def ask() -> None:
        writers.rows(OWN, [])  # Opens the connection, and prepares the statement.
        happened.clear()
        asyncio.get_running_loop().call_soon(happened.append, "next turn")
        writers.rows(OWN, [])

    monkeypatch.setattr(PostgresqlConnection, "_flush", note_and_flush)
    assert serve(ask) == [None]
    assert happened == ["left", "next turn"]


def watching_requests(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return the names, to come, of what requests change of what the loop watches: libuv may crash."""
    found: list[str] = []

    def noted(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def note(*args: Any) -> Any:
            if on_loop():
                found.append(name)
            return change(*args)

        return note

    for name in ("add_reader", "remove_reader", "add_writer", "remove_writer"):
        setattr(loop, name, noted(name, getattr(loop, name)))
    return found


def test_only_the_loop_changes_what_it_watches(writers: ConnectionPool) -> None:
    long = "x" * 10_000_000  # More than a socket takes at once.
    reader = ReadPipeline("default")

    def close_what_others_wait_for() -> None:
        reader.connected().close()

    async def main() -> tuple[list[str], list[Any]]:
        found = watching_requests(asyncio.get_running_loop())
        asked = [lambda: reader.rows(SLEEP, []), lambda: writers.rows(LENGTH, [long])]
        first = await asyncio.gather(*map(turn, asked))
        again = [*asked, close_what_others_wait_for, *asked, add_two(writers, lambda: 1 / 0)]
        return found, [*first, *await asyncio.gather(*map(turn, again), return_exceptions=True)]

    found, answers = run(main())
    assert isinstance(answers.pop(), ZeroDivisionError)
    assert [answer for answer in answers if answer is not None] == [[("",)], [(len(long),)]] * 3
    assert found == []


def test_what_lost_its_connection_goes_on_on_no_other(writers: ConnectionPool) -> None:
    def lose() -> None:
        ((process,),) = writers.rows(OWN, [])
        end_connection(process)
        with suppress(OperationalError):
            writers.rows(OWN, [])

    (outcome,) = serve(add_two(writers, lose))
    assert isinstance(outcome, OperationalError)
    assert names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_what_failed_and_was_caught_is_not_called_committed(writers: ConnectionPool) -> None:
    def fail() -> None:
        with suppress(DataError):
            writers.rows(DIVIDE, [0])

    def one_only() -> None:
        with writers.transaction():
            writers.rows(ADD, ["one"])
            fail()

    (outcome,) = serve(one_only)
    assert isinstance(outcome, OperationalError)
    assert names() == set()


def test_one_inside_another_is_part_of_it(writers: ConnectionPool) -> None:
    def outer() -> None:
        with writers.transaction():
            add_two(writers, lambda: None)()
            raise ZeroDivisionError

    serve(outer)
    assert names() == set()


def test_a_statement_that_the_server_forgot_ends_it(writers: ConnectionPool) -> None:
    (outcome,) = serve(add_two(writers, lambda: writers.rows(FORGET, [])))
    assert isinstance(outcome, OperationalError)
    assert names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_what_nobody_waited_for_is_committed_too(writers: ConnectionPool) -> None:
    def send_both() -> None:
        writers.rows(OWN, [])
        with writers.transaction():
            writers.rows(ADD, ["one"])
            writers.send(ADD, ["two"])

    assert serve(send_both) == [None]
    assert names() == {"one", "two"}


@pytest.mark.parametrize("waits", [True, False])
def test_the_failure_of_what_nobody_waited_for_undoes_all(writers: ConnectionPool, waits: bool) -> None:
    def fail_unheard() -> list[Any]:
        with suppress(DataError), writers.transaction():
            writers.rows(DIVIDE, [5])
            writers.rows(ADD, ["three"])
            writers.send(DIVIDE, [0])
            writers.send(ADD, ["one"])
            if waits:
                writers.rows(ADD, ["two"])
            return ["It was committed."]
        return writers.rows(DIVIDE, [2])  # The connection is of use.

    assert serve(fail_unheard) == [[(5,)]]
    assert names() == set()


def test_an_exception_after_what_fails_unheard_undoes_all(writers: ConnectionPool) -> None:
    def fail() -> None:
        with writers.transaction():
            writers.rows(DIVIDE, [5])
            writers.send(DIVIDE, [0])
            raise ZeroDivisionError

    outcome, after = serve(fail, lambda: writers.rows(DIVIDE, [2]))
    assert isinstance(outcome, ZeroDivisionError)
    assert after == [(5,)]


@pytest.mark.parametrize("waits", [True, False])
def test_what_the_server_forgot_and_nobody_waited_for_is_a_failure_too(
    writers: ConnectionPool, waits: bool
) -> None:
    def send_forgotten() -> None:
        with writers.transaction():
            writers.rows(ADD, ["one"])
            writers.rows(FORGET, [])
            writers.send(ADD, ["two"])
            if waits:
                writers.rows(OWN, [])

    (outcome,) = serve(send_forgotten)
    assert isinstance(outcome, OperationalError)
    assert names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_when_all_is_forgotten_the_connection_is_of_use_again(writers: ConnectionPool) -> None:
    def forget_and_fail() -> None:
        with suppress(ZeroDivisionError), writers.transaction():
            writers.rows(ADD, ["one"])
            writers.rows(FORGET_ALL, [])
            writers.send(ADD, ["two"])
            raise ZeroDivisionError
        writers.rows(ADD, ["three"])

    assert serve(forget_and_fail) == [None]
    assert names() == {"three"}


def test_a_part_that_failed_and_was_caught_lets_nothing_commit(writers: ConnectionPool) -> None:
    def outer() -> None:
        with writers.transaction(), suppress(ZeroDivisionError):
            add_two(writers, lambda: 1 / 0)()

    (outcome,) = serve(outer)
    assert isinstance(outcome, OperationalError)
    assert names() == set()


def test_a_connection_from_before_an_outage_is_closed(
    writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("default")

    def several() -> list[Any]:
        before = writers.rows(OWN, [])
        server.generation += 1  # The watch has lost the server, and found another that takes writes.
        monkeypatch.setitem(servers, "default", server)
        with writers.transaction():
            first = writers.rows(OWN, [])
        return [before == first, first == writers.rows(OWN, [])]

    assert serve(several) == [[False, True]]


def test_a_connection_handed_on_to_who_could_open_none_is_not_from_before_an_outage(
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
            process = writers.rows(OWN, [])
            while len(attempts) < 2:
                wait(asyncio.sleep(0.001))
            server.generation += 1
            monkeypatch.setitem(servers, "default", server)
        return process

    def follow() -> Any:
        with writers.transaction():
            return writers.rows(OWN, [])

    monkeypatch.setattr(opening, "connect", connect_but_not_the_second)
    lost, process = serve(lose, follow)
    assert lost != process


def test_a_server_that_takes_no_more_writes_is_left(writers: ConnectionPool) -> None:
    read_only = Statement(b"read_only", b"SET TRANSACTION READ ONLY")

    def write() -> list[Any]:
        before = writers.rows(OWN, [])
        with suppress(InternalError), writers.transaction():
            writers.rows(read_only, [])
            writers.rows(ADD, ["one"])
        return [before == writers.rows(OWN, [])]

    assert serve(write) == [[False]]
    assert names() == set()


@COMMITTED
def test_functions_that_write_are_atomic_in_both_places() -> None:
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
        return on_loop(), known

    for on_the_loop in (True, False):
        with suppress(ZeroDivisionError):
            serve(lambda: rename(lambda: 1 / 0)) if on_the_loop else rename(lambda: 1 / 0)
        assert not Pet.objects.exists()
        was_there, pet = serve(lambda: rename(list))[0] if on_the_loop else rename(list)
        assert was_there == on_the_loop
        assert Pet.objects.get() == pet
        pet.delete()


def test_a_row_that_is_not_there_cannot_be_read() -> None:
    (outcome,) = serve(lambda: refresh(Pet(pk=1)))
    assert isinstance(outcome, Pet.DoesNotExist)
