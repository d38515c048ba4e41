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
from petstore.event_loop import connector
from petstore.event_loop.compiled_writes import atomic, insert, refresh, update
from petstore.event_loop.connection_pool import ConnectionPool
from petstore.event_loop.connector import connect
from petstore.event_loop.greenlets import is_on_loop, wait
from petstore.event_loop.libpq import Statement
from petstore.event_loop.pg_connection import PostgresqlConnection
from petstore.event_loop.shared_connection import ReadPipeline
from tests.conftest import COMMITTED
from tests.support.concurrency import in_other_thread
from tests.support.event_loop import Function, run, run_request, serve, terminate_backend
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = [pytest.mark.django_db, NEEDS_POSTGRESQL]

ADD = Statement(b"add", b"INSERT INTO inventory_category (name, description) VALUES ($1, '') RETURNING id")
GET_PID = Statement(b"get_pid", b"SELECT pg_backend_pid()")
DIVIDE = Statement(b"divide", b"SELECT 10 / $1")
LENGTH = Statement(b"length", b"SELECT length($1)")
SLEEP = Statement(b"sleep", b"SELECT pg_sleep(0.02)")
ADDED = ["one", "two", "three"]
DEALLOCATE = Statement(b"deallocate", b"DEALLOCATE add")
DEALLOCATE_ALL = Statement(b"deallocate_all", b"DEALLOCATE ALL")


@pytest.fixture
def writers(db: None) -> Iterator[ConnectionPool]:
    """A pool whose transactions commit, unlike the test's. Their rows are deleted afterwards."""
    yield ConnectionPool("default")
    in_other_thread(Category.objects.filter(name__in=ADDED).delete)


def add_two(writers: ConnectionPool, between: Function) -> Function:
    """Return a function that adds two categories in a transaction and calls `between` in between."""

    def add() -> None:
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            between()
            writers.fetch_rows(ADD, ["two"])

    return add


def get_names() -> set[str]:
    return set(Category.objects.filter(name__in=ADDED).values_list("name", flat=True))


def test_nothing_is_visible_before_the_commit(writers: ConnectionPool) -> None:
    visible: list[set[str]] = []
    serve(add_two(writers, lambda: visible.append(in_other_thread(get_names))))
    assert (visible, get_names()) == ([set()], {"one", "two"})


def test_exception_rolls_back_only_its_transaction(writers: ConnectionPool) -> None:
    failed, _ = serve(add_two(writers, lambda: 1 / 0), lambda: writers.fetch_rows(ADD, ["three"]))
    assert isinstance(failed, ZeroDivisionError)
    assert get_names() == {"three"}


def test_connection_is_reused_after_a_rollback(writers: ConnectionPool) -> None:
    pids = []

    def fail_once() -> None:
        with suppress(ZeroDivisionError), writers.transaction():
            pids.append(writers.fetch_rows(GET_PID, []))
            _ = 1 / 0
        pids.append(writers.fetch_rows(GET_PID, []))

    serve(fail_once)
    before, after = pids
    assert before == after


def test_concurrent_transactions_have_a_connection_each(writers: ConnectionPool) -> None:
    is_same = []

    def get_pid_twice() -> None:
        with writers.transaction():
            first = writers.fetch_rows(GET_PID, [])
            wait(asyncio.sleep(0.001))
            is_same.append(writers.fetch_rows(GET_PID, []) == first)

    assert serve(*[get_pid_twice] * 20) == [None] * 20
    assert is_same == [True] * 20


def test_writes_share_the_open_connections_if_the_server_accepts_no_more(
    writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = itertools.count(1)

    def connect_twice(alias: str) -> BaseDatabaseWrapper:
        if next(attempts) > 2:
            raise OperationalError("sorry, too many clients already")
        return connect(alias)

    monkeypatch.setattr(connector, "connect", connect_twice)

    async def write_concurrently() -> list[Any]:
        requests = (run_request(lambda: writers.fetch_rows(SLEEP, [])) for _ in range(12))
        return await asyncio.gather(*requests, return_exceptions=True)

    async def main() -> list[Any]:  # The second time, a failed connection is not used.
        return await write_concurrently() + await write_concurrently()

    assert run(main()) == [[("",)]] * 24


def test_write_is_sent_at_once(writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    flush = PostgresqlConnection._flush

    def record_and_flush(self: PostgresqlConnection) -> None:
        events.append("sent")
        flush(self)

    def send() -> None:
        writers.fetch_rows(GET_PID, [])  # Opens the connection and prepares the statement.
        events.clear()
        asyncio.get_running_loop().call_soon(events.append, "next iteration")
        writers.fetch_rows(GET_PID, [])

    monkeypatch.setattr(PostgresqlConnection, "_flush", record_and_flush)
    assert serve(send) == [None]
    assert events == ["sent", "next iteration"]


def record_changes_by_requests(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Record the readers and writers that requests change, which could crash libuv."""
    changes: list[str] = []

    def wrap(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def record_and_change(*args: Any) -> Any:
            if is_on_loop():
                changes.append(name)
            return change(*args)

        return record_and_change

    for name in ("add_reader", "remove_reader", "add_writer", "remove_writer"):
        setattr(loop, name, wrap(name, getattr(loop, name)))
    return changes


def test_only_the_loop_changes_its_readers_and_writers(writers: ConnectionPool) -> None:
    long = "x" * 10_000_000  # More than fits into the socket's buffer.
    reader = ReadPipeline("default")

    def close_busy_connection() -> None:
        reader.get_connection().close()

    async def main() -> tuple[list[str], list[Any]]:
        changes = record_changes_by_requests(asyncio.get_running_loop())
        queries = [lambda: reader.fetch_rows(SLEEP, []), lambda: writers.fetch_rows(LENGTH, [long])]
        results = await asyncio.gather(*map(run_request, queries))
        requests = [*queries, close_busy_connection, *queries, add_two(writers, lambda: 1 / 0)]
        results += await asyncio.gather(*map(run_request, requests), return_exceptions=True)
        return changes, results

    changes, results = run(main())
    assert isinstance(results.pop(), ZeroDivisionError)
    assert [result for result in results if result is not None] == [[("",)], [(len(long),)]] * 3
    assert changes == []


def test_transaction_does_not_continue_on_another_connection(writers: ConnectionPool) -> None:
    def lose_connection() -> None:
        ((pid,),) = writers.fetch_rows(GET_PID, [])
        terminate_backend(pid)
        with suppress(OperationalError):
            writers.fetch_rows(GET_PID, [])

    (outcome,) = serve(add_two(writers, lose_connection))
    assert isinstance(outcome, OperationalError)
    assert get_names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_transaction_with_a_caught_failure_does_not_commit(writers: ConnectionPool) -> None:
    def fail() -> None:
        with suppress(DataError):
            writers.fetch_rows(DIVIDE, [0])

    def add_and_fail() -> None:
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            fail()

    (outcome,) = serve(add_and_fail)
    assert isinstance(outcome, OperationalError)
    assert get_names() == set()


def test_nested_transaction_is_part_of_the_outer_one(writers: ConnectionPool) -> None:
    def outer() -> None:
        with writers.transaction():
            add_two(writers, lambda: None)()
            raise ZeroDivisionError

    serve(outer)
    assert get_names() == set()


def test_deallocated_statement_fails_the_transaction(writers: ConnectionPool) -> None:
    (outcome,) = serve(add_two(writers, lambda: writers.fetch_rows(DEALLOCATE, [])))
    assert isinstance(outcome, OperationalError)
    assert get_names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_statement_sent_without_waiting_is_committed(writers: ConnectionPool) -> None:
    def add_both() -> None:
        writers.fetch_rows(GET_PID, [])
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            writers.send(ADD, ["two"])

    assert serve(add_both) == [None]
    assert get_names() == {"one", "two"}


@pytest.mark.parametrize("waits", [True, False])
def test_failed_statement_sent_without_waiting_rolls_back(writers: ConnectionPool, waits: bool) -> None:
    def fail_without_waiting() -> list[Any]:
        with suppress(DataError), writers.transaction():
            writers.fetch_rows(DIVIDE, [5])
            writers.fetch_rows(ADD, ["three"])
            writers.send(DIVIDE, [0])
            writers.send(ADD, ["one"])
            if waits:
                writers.fetch_rows(ADD, ["two"])
            return ["The transaction was committed."]
        return writers.fetch_rows(DIVIDE, [2])  # The connection is still usable.

    assert serve(fail_without_waiting) == [[(5,)]]
    assert get_names() == set()


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
    def send_deallocated() -> None:
        with writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            writers.fetch_rows(DEALLOCATE, [])
            writers.send(ADD, ["two"])
            if waits:
                writers.fetch_rows(GET_PID, [])

    (outcome,) = serve(send_deallocated)
    assert isinstance(outcome, OperationalError)
    assert get_names() == set()
    assert serve(add_two(writers, lambda: None)) == [None]


def test_connection_is_usable_after_deallocate_all(writers: ConnectionPool) -> None:
    def deallocate_and_fail() -> None:
        with suppress(ZeroDivisionError), writers.transaction():
            writers.fetch_rows(ADD, ["one"])
            writers.fetch_rows(DEALLOCATE_ALL, [])
            writers.send(ADD, ["two"])
            raise ZeroDivisionError
        writers.fetch_rows(ADD, ["three"])

    assert serve(deallocate_and_fail) == [None]
    assert get_names() == {"three"}


def test_caught_exception_of_a_nested_transaction_prevents_the_commit(writers: ConnectionPool) -> None:
    def outer() -> None:
        with writers.transaction(), suppress(ZeroDivisionError):
            add_two(writers, lambda: 1 / 0)()

    (outcome,) = serve(outer)
    assert isinstance(outcome, OperationalError)
    assert get_names() == set()


def test_pooled_connection_from_before_an_outage_is_closed(
    writers: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("default")

    def write() -> list[Any]:
        before = writers.fetch_rows(GET_PID, [])
        server.generation += 1  # As after a failover.
        monkeypatch.setitem(servers, "default", server)
        with writers.transaction():
            first = writers.fetch_rows(GET_PID, [])
        return [before == first, first == writers.fetch_rows(GET_PID, [])]

    assert serve(write) == [[False, True]]


def test_pooled_connection_is_not_reused_across_an_outage(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WRITE_CONNECTIONS = 2
    writers, server = ConnectionPool("default"), Server("default")
    attempts: list[str] = []

    def fail_second_attempt(alias: str) -> BaseDatabaseWrapper:
        attempts.append(alias)
        if len(attempts) == 2:
            raise OperationalError("sorry, too many clients already")
        return connect(alias)

    def start_outage() -> Any:
        with writers.transaction():
            pid = writers.fetch_rows(GET_PID, [])
            while len(attempts) < 2:
                wait(asyncio.sleep(0.001))
            server.generation += 1
            monkeypatch.setitem(servers, "default", server)
        return pid

    def write_afterwards() -> Any:
        with writers.transaction():
            return writers.fetch_rows(GET_PID, [])

    monkeypatch.setattr(connector, "connect", fail_second_attempt)
    pid, next_pid = serve(start_outage, write_afterwards)
    assert pid != next_pid


def test_connection_to_a_standby_is_closed(writers: ConnectionPool) -> None:
    read_only = Statement(b"read_only", b"SET TRANSACTION READ ONLY")

    def write() -> list[Any]:
        before = writers.fetch_rows(GET_PID, [])
        with suppress(InternalError), writers.transaction():
            writers.fetch_rows(read_only, [])
            writers.fetch_rows(ADD, ["one"])
        return [before == writers.fetch_rows(GET_PID, [])]

    assert serve(write) == [[False]]
    assert get_names() == set()


@COMMITTED
def test_atomic_functions_work_on_and_off_the_loop() -> None:
    category = Category.objects.create(name="one")

    @atomic
    def rename(callback: Callable[[], Any]) -> tuple[bool, Pet]:
        pet = insert(Pet(name="Rex", category_id=category.pk))
        assert update(Pet, {"pk": pet.pk, "name": "Rex"}, name="Max", status="sold") == 1
        assert update(Pet, {"pk": pet.pk, "name": "Rex"}, name="Tom") == 0
        stored = Pet(pk=pet.pk)
        refresh(stored, lock=True)
        assert (stored.name, stored.status, stored.created_at) == ("Max", "sold", pet.created_at)
        callback()
        return is_on_loop(), stored

    for on_loop in (True, False):
        with suppress(ZeroDivisionError):
            serve(lambda: rename(lambda: 1 / 0)) if on_loop else rename(lambda: 1 / 0)
        assert not Pet.objects.exists()
        was_on_loop, pet = serve(lambda: rename(list))[0] if on_loop else rename(list)
        assert was_on_loop == on_loop
        assert Pet.objects.get() == pet
        pet.delete()


def test_refresh_of_a_missing_row_raises_does_not_exist() -> None:
    (outcome,) = serve(lambda: refresh(Pet(pk=1)))
    assert isinstance(outcome, Pet.DoesNotExist)
