"""Django's transactions on the event loop are atomic, and each uses one connection."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InternalError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from greenlet import GreenletExit

from inventory.models import Category
from petstore.db.event_loop import connector
from petstore.db.event_loop.compiled_reads import Read
from petstore.db.event_loop.connection import PostgresqlConnection
from petstore.db.event_loop.connection_pool import ConnectionPool
from petstore.db.event_loop.connector import connect
from petstore.db.event_loop.dbapi import MAX_PREPARED, REENTERED, ROLLED_BACK, statements
from petstore.db.event_loop.greenlets import RequestTask, current_task, is_on_loop, wait
from petstore.db.monitor import Server, servers
from tests.support.concurrency import in_other_thread
from tests.support.event_loop import Function, run, run_request, serve, terminate_backend
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.sql import fetch_value
from tests.support.thorough import times

pytestmark = [pytest.mark.django_db, NEEDS_POSTGRESQL]

CANCELLED = times(10_000, 2_000)  # Requests.
ADDED = ["one", "two", "three"]
CATEGORIES = Read(Category, lambda: Category.objects.values("id", "name"))
get_pid = partial(fetch_value, "SELECT pg_backend_pid()")
divide = partial(fetch_value, "SELECT 10 / %s::int")


@pytest.fixture(autouse=True)
def delete_committed_rows(writers: ConnectionPool) -> Any:
    """Delete what the tests commit on the loop, unlike on the test's own connection."""
    yield
    in_other_thread(Category.objects.filter(name__in=ADDED).delete)


def add(name: str) -> Category:
    return Category.objects.create(name=name)


def add_two(between: Function) -> Function:
    """Return a function that adds two categories in a transaction and calls `between` in between."""

    @transaction.atomic
    def add_both() -> None:
        add("one")
        between()
        add("two")

    return add_both


def get_names() -> set[str]:
    return set(Category.objects.filter(name__in=ADDED).values_list("name", flat=True))


# Transactions


def test_nothing_is_visible_before_the_commit() -> None:
    visible: list[set[str]] = []
    serve(add_two(lambda: visible.append(in_other_thread(get_names))))
    assert (visible, get_names()) == ([set()], {"one", "two"})


def test_exception_rolls_back_only_its_transaction() -> None:
    failed, _ = serve(add_two(lambda: 1 / 0), lambda: add("three"))
    assert isinstance(failed, ZeroDivisionError)
    assert get_names() == {"three"}


def test_savepoint_rolls_back_only_its_block() -> None:
    @transaction.atomic
    def outer() -> None:
        add("one")
        for failure in (divide, lambda _: 1 / 0):
            with suppress(DataError, ZeroDivisionError), transaction.atomic():
                add("two")
                failure(0)
        with transaction.atomic():
            add("three")

    assert serve(outer) == [None]
    assert get_names() == {"one", "three"}


def test_exception_of_the_outer_block_rolls_back_the_inner_one() -> None:
    @transaction.atomic
    def outer() -> None:
        add_two(lambda: None)()
        raise ZeroDivisionError

    serve(outer)
    assert get_names() == set()


def test_transaction_with_a_caught_failure_does_not_commit() -> None:
    @transaction.atomic
    def add_and_fail() -> None:
        add("one")
        with suppress(DataError):
            divide(0)

    (outcome,) = serve(add_and_fail)
    assert isinstance(outcome, OperationalError)
    assert str(outcome) == ROLLED_BACK
    assert get_names() == set()


def test_deferred_constraint_fails_the_commit() -> None:
    sql = "INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at)"

    def insert(*names: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"{sql} VALUES ('Rex', 999999, 'sold', now(), now())")

    outcomes = serve(insert, add_two(insert))
    assert [type(outcome) for outcome in outcomes] == [IntegrityError] * 2
    assert get_names() == set()


def test_read_sees_the_writes_of_its_block() -> None:
    def add_and_read() -> Any:
        with transaction.atomic():
            category = add("one")
            row = CATEGORIES.where(id=category.pk).fetch_one()
            transaction.set_rollback(True)
        return row, CATEGORIES.where(id=category.pk).fetch_one()

    [(within, after)] = serve(add_and_read)
    assert within["name"] == "one"
    assert after is None


def test_row_lock_lasts_until_the_commit() -> None:
    in_other_thread(partial(add, "one"))
    order = []

    @transaction.atomic
    def lock(name: str) -> None:
        Category.objects.select_for_update().get(name="one")
        order.append(name)
        wait(asyncio.sleep(0.02))
        order.append(name)

    assert serve(partial(lock, "first"), partial(lock, "second")) == [None, None]
    assert order in ([*["first"] * 2, *["second"] * 2], [*["second"] * 2, *["first"] * 2])


def test_failing_commit_hook_is_logged_and_does_not_deny_the_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []

    @transaction.atomic
    def add_with_hooks() -> None:
        transaction.on_commit(lambda: 1 // 0)
        transaction.on_commit(lambda: calls.append(add("two").name))
        add("one")

    with caplog.at_level(logging.ERROR):
        assert serve(add_with_hooks) == [None]
    assert "ZeroDivisionError" in caplog.text
    assert (calls, get_names()) == (["two"], {"one", "two"})


def test_execute_wrapper_sees_the_statements_of_its_request() -> None:
    seen: list[str] = []

    def record(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return execute(sql, *rest)

    def add_one() -> None:
        with connection.execute_wrapper(record):
            add("one")
            wait(asyncio.sleep(0.01))

    serve(add_one, lambda: add("two"))
    assert [sql.split()[0] for sql in seen].count("INSERT") == 1


# The cursor


def test_cursor_has_the_interface_of_pep_249() -> None:
    def use() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT n AS number FROM generate_series(1, %s) AS n", [5])
            results: list[Any] = [cursor.rowcount, cursor.description[0][0], cursor.fetchone()]
            results += [cursor.fetchmany(2), list(cursor), cursor.fetchone()]
            cursor.executemany("SELECT %s::int", [[1], [2]])
            results += [cursor.fetchall()]
            cursor.execute("SELECT %(a)s::int + %(b)s::int + %(a)s::int", {"a": 1, "b": 2})
            results += [cursor.fetchall()]
            cursor.execute("SELECT '%'")
            return [*results, cursor.fetchall()]

    expected = [5, "number", (1,), [(2,), (3,)], [(4,), (5,)], None, [(2,)], [(4,)], [("%",)]]
    assert serve(use) == [expected]


def test_parameter_types_of_a_statement_may_differ() -> None:
    values = [1, "x", None, 1.5, True, 2]
    assert serve(lambda: [fetch_value("SELECT %s", value) for value in values]) == [values]


def test_numbers_of_an_array_may_need_more_bytes_than_when_the_statement_was_prepared() -> None:
    arrays = [[1, 2], [1, 2**40]]
    assert serve(lambda: [fetch_value("SELECT %s::bigint[]", array) for array in arrays]) == [arrays]


def test_nul_in_a_text_is_rejected() -> None:
    def send() -> Any:
        with suppress(ValueError, DataError):
            return fetch_value("SELECT %s::text", "a\0b")
        return divide(5)  # The connection is still usable.

    assert serve(send) == [2]


def test_version_of_the_server_is_known() -> None:
    def get_version() -> Any:
        wrapper: Any = connections["default"]
        return wrapper.pg_version

    assert serve(get_version)[0] >= 140_000


def test_iterator_reads_all_rows() -> None:
    def add_and_iterate() -> set[str]:
        for name in ADDED:
            add(name)
        return {row.name for row in Category.objects.filter(name__in=ADDED).iterator(chunk_size=2)}

    assert serve(add_and_iterate) == [set(ADDED)]


def test_number_of_prepared_statements_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("petstore.db.event_loop.dbapi.statements", dict.fromkeys(range(MAX_PREPARED)))

    def count() -> Any:
        before = fetch_value("SELECT count(*) FROM pg_prepared_statements")
        return before == fetch_value("SELECT count(*) FROM pg_prepared_statements WHERE true")

    assert serve(count) == [True]
    monkeypatch.undo()
    assert len(statements) <= MAX_PREPARED


# Connections


def test_connection_is_reused_after_a_rollback() -> None:
    pids = []

    def fail_once() -> None:
        with suppress(ZeroDivisionError), transaction.atomic():
            pids.append(get_pid())
            _ = 1 / 0
        pids.append(get_pid())

    serve(fail_once)
    before, after = pids
    assert before == after


def test_connection_is_lent_only_to_statements_and_transactions(settings: Any) -> None:
    settings.WRITE_CONNECTIONS = 1

    def use_between_statements() -> list[Any]:
        with transaction.atomic():  # Has sent nothing yet.
            other = run_other_request(get_pid)
            with suppress(ZeroDivisionError), transaction.atomic():
                _ = 1 / 0
        return [other == run_other_request(get_pid), get_pid() == other]

    def run_other_request(function: Function) -> Any:
        return wait(run_request(function))

    assert serve(use_between_statements) == [[True, True]]


def test_connection_belongs_to_its_request() -> None:
    async def main() -> Any:
        wrapper = await run_request(lambda: connections["default"])

        def use_while_open() -> Any:
            return wait(run_request(wrapper.cursor))

        return await asyncio.gather(
            run_request(lambda: wait(asyncio.sleep(0.01))),
            run_request(lambda: wrapper.cursor() and connections["default"] is wrapper),
            run_request(use_while_open),
            return_exceptions=True,
        )

    outcomes = run(main())
    assert any(isinstance(outcome, DatabaseError) for outcome in outcomes)


def test_writes_share_the_open_connections_if_the_server_accepts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = itertools.count(1)

    def connect_twice(alias: str) -> BaseDatabaseWrapper:
        if next(attempts) > 2:
            raise OperationalError("sorry, too many clients already")
        return connect(alias)

    monkeypatch.setattr(connector, "connect", connect_twice)

    async def write_concurrently() -> list[Any]:
        requests = (run_request(lambda: fetch_value("SELECT pg_sleep(0.02)")) for _ in range(12))
        return await asyncio.gather(*requests, return_exceptions=True)

    async def main() -> list[Any]:  # The second time, a failed connection is not used.
        return await write_concurrently() + await write_concurrently()

    assert run(main()) == [""] * 24


def test_statement_is_sent_at_once_and_begin_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    flush = PostgresqlConnection._flush

    def record_and_flush(self: PostgresqlConnection) -> None:
        events.append("sent")
        flush(self)

    def send() -> None:
        get_pid()  # Opens the connection and prepares the statement.
        events.clear()
        asyncio.get_running_loop().call_soon(events.append, "next iteration")
        with transaction.atomic():
            get_pid()

    monkeypatch.setattr(PostgresqlConnection, "_flush", record_and_flush)
    assert serve(send) == [None]
    assert events == ["sent", "next iteration", "sent"]  # The second one is COMMIT.


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


def test_only_the_loop_changes_its_readers_and_writers() -> None:
    long = "x" * 10_000_000  # More than fits into the socket's buffer.

    def read() -> Any:
        return CATEGORIES.where(id=0).fetch(1)

    def get_length() -> Any:
        return fetch_value("SELECT length(%s)", long)

    def close_busy_connection() -> None:
        with transaction.atomic():
            get_pid()
            connection.close()

    async def main() -> tuple[list[str], list[Any]]:
        changes = record_changes_by_requests(asyncio.get_running_loop())
        results = await asyncio.gather(*map(run_request, [read, get_length]))
        requests = [read, get_length, close_busy_connection, read, get_length, add_two(lambda: 1 / 0)]
        results += await asyncio.gather(*map(run_request, requests), return_exceptions=True)
        return changes, results

    changes, results = run(main())
    assert isinstance(results.pop(), ZeroDivisionError)
    assert [result for result in results if result is not None] == [[], len(long)] * 3
    assert changes == []


# Failures


def test_transaction_does_not_continue_on_another_connection() -> None:
    def lose_connection() -> None:
        terminate_backend(get_pid())
        with suppress(OperationalError):
            get_pid()

    (outcome,) = serve(add_two(lose_connection))
    assert isinstance(outcome, OperationalError)
    assert get_names() == set()
    assert serve(add_two(lambda: None)) == [None]


def deallocate() -> Any:
    with connection.cursor() as cursor:
        return cursor.execute("DEALLOCATE ALL")


def test_deallocated_statements_fail_the_transaction_but_not_the_next_one() -> None:
    def add_twice() -> None:
        with suppress(OperationalError):
            add_two(deallocate)()
        assert get_names() == set()
        add_two(lambda: None)()

    assert serve(add_twice) == [None]
    assert get_names() == {"one", "two"}


def test_deallocated_statement_outside_a_transaction_is_prepared_again() -> None:
    assert serve(lambda: (divide(5), deallocate()) and divide(5)) == [2]


def test_destructor_that_uses_the_database_during_a_statement_fails(
    monkeypatch: pytest.MonkeyPatch, writers: ConnectionPool
) -> None:
    outcomes: list[Any] = []
    acquire = ConnectionPool.acquire

    def query() -> Any:
        try:
            return get_pid()
        except OperationalError as error:
            return str(error)

    class Queries:
        def __del__(self) -> None:
            outcomes.append(query())

    def acquire_and_collect(self: ConnectionPool) -> PostgresqlConnection:
        lent = acquire(self)
        Queries()
        return lent

    monkeypatch.setattr(ConnectionPool, "acquire", acquire_and_collect)
    assert serve(add_two(lambda: Queries() and None)) == [None]
    assert outcomes[0] == REENTERED
    assert isinstance(outcomes[1], int)
    assert count_lent(writers) == 0


def count_lent(writers: ConnectionPool) -> int:
    usable = {one for one in writers._open if one.error is None}
    return len(usable) - len({one for one in writers._idle if one.error is None})


def test_pooled_connection_from_before_an_outage_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("default")

    def write() -> list[Any]:
        before = get_pid()
        server.generation += 1  # As after a failover.
        monkeypatch.setitem(servers, "default", server)
        with transaction.atomic():
            first = get_pid()
        return [before == first, first == get_pid()]

    assert serve(write) == [[False, True]]


def test_pooled_connection_is_not_reused_across_an_outage(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WRITE_CONNECTIONS = 2
    server = Server("default")
    attempts: list[str] = []

    def fail_second_attempt(alias: str) -> BaseDatabaseWrapper:
        attempts.append(alias)
        if len(attempts) == 2:
            raise OperationalError("sorry, too many clients already")
        return connect(alias)

    @transaction.atomic
    def start_outage() -> Any:
        pid = get_pid()
        while len(attempts) < 2:
            wait(asyncio.sleep(0.001))
        server.generation += 1
        monkeypatch.setitem(servers, "default", server)
        return pid

    monkeypatch.setattr(connector, "connect", fail_second_attempt)
    pid, next_pid = serve(start_outage, transaction.atomic(get_pid))
    assert pid != next_pid


def test_connection_to_a_standby_is_closed() -> None:
    def write() -> Any:
        before = get_pid()
        with suppress(InternalError), transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
            add("one")
        return before == get_pid()

    assert serve(write) == [False]
    assert get_names() == set()


# Requests that end early


def test_request_that_leaves_a_transaction_open_loses_its_connection(writers: ConnectionPool) -> None:
    def leave_open() -> None:
        transaction.set_autocommit(False)
        add("one")

    def leave_block_open() -> None:
        transaction.atomic().__enter__()
        add("two")

    async def main() -> tuple[int, Any]:
        await asyncio.gather(run_request(leave_open), run_request(leave_block_open))
        return count_lent(writers), await asyncio.gather(*[run_request(get_names)] * 1)

    assert run(main()) == (0, [set()])


def test_connection_on_which_a_transaction_was_left_open_is_not_lent_again() -> None:
    def begin() -> tuple[Any, Any]:
        first = fetch_value("SELECT pg_backend_pid()")
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
        return first, fetch_value("SELECT pg_backend_pid()")

    [(first, second)] = serve(begin)
    assert first != second


def test_cancelled_requests_leave_the_pool_whole(settings: Any, writers: ConnectionPool) -> None:
    """They are cancelled while connecting, in the queue, during a statement, COMMIT or anything else."""
    settings.WRITE_CONNECTIONS = 4
    running: set[RequestTask] = set()

    def work(number: int) -> None:
        running.add(current_task())
        try:
            with transaction.atomic():
                divide(5)
                if number % 3 == 0:
                    wait(asyncio.sleep(0))
                with transaction.atomic():
                    divide(2)
                transaction.set_rollback(number % 2 == 0)
        finally:
            running.discard(current_task())

    async def main() -> tuple[int, int, list[int]]:
        for first in range(0, CANCELLED, 20):
            for number in range(first, first + 20):
                RequestTask(partial(work, number)).start()
            for _ in range(first // 20 % 12):
                await asyncio.sleep(0.0001)
            for task in list(running):
                task.throw(GreenletExit())
        waiting = len(writers._waiting)
        pids = await asyncio.gather(*[run_request(get_pid) for _ in range(8)])
        # Counted now, since a connection on its way to a cancelled request goes back in the next iteration.
        return count_lent(writers), waiting, pids

    lent, waiting, pids = run(main())
    assert (lent, waiting, len(pids)) == (0, 0, 8)


def test_pool_opens_connections_after_opening_one_was_cancelled(writers: ConnectionPool) -> None:
    async def cancel() -> None:
        task = RequestTask(get_pid)
        task.start()
        await asyncio.sleep(0)  # Lets the pool start opening.
        assert writers._opening
        task.throw(GreenletExit())

    run(cancel())  # At its end, it cancels the tasks of the loop.
    assert run(run_request(get_pid)) > 0


def test_debug_mode_runs_queries_on_the_loop(settings: Any) -> None:
    settings.DEBUG = True
    assert run(run_request(get_pid)) > 0
