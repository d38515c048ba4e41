"""Connections that close or stop responding at an inconvenient time."""

import asyncio
import itertools
import time
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from petstore.db.event_loop import connector
from petstore.db.event_loop.connection import PostgresqlConnection
from petstore.db.event_loop.connection_pool import ConnectionPool
from petstore.db.event_loop.connector import connect
from petstore.db.event_loop.errors import ConnectionClosedError, ConnectionFailedError
from petstore.db.event_loop.greenlets import RequestTask
from petstore.db.event_loop.libpq import Statement
from petstore.db.event_loop.shared_connection import ReadPipeline, get_read_pipeline
from petstore.db.monitor import Server, servers
from tests.support.event_loop import run, run_request, serve, terminate_backend
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.sql import fetch_value

pytestmark = [pytest.mark.django_db, NEEDS_POSTGRESQL]

SELECT_ONE = Statement(b"select_one", b"SELECT 1")
GET_PID = Statement(b"get_pid", b"SELECT pg_backend_pid()")
get_pid = partial(fetch_value, "SELECT pg_backend_pid()")
sleep = partial(fetch_value, "SELECT pg_sleep(0.05)")
MAX_SECONDS = 1.0  # Seconds. The timeout is six seconds.


def read_pid() -> Any:
    ((pid,),) = get_read_pipeline("default").fetch_rows(GET_PID, [])
    return pid


@pytest.mark.parametrize("is_read", [True, False])
def test_closed_connection_is_detected_at_once_and_only_reads_are_retried(is_read: bool) -> None:
    send_again = read_pid if is_read else get_pid

    def send() -> float:
        terminate_backend(send_again())  # Blocks the loop, which can't have read the socket yet.
        started_at = time.monotonic()
        try:
            send_again()
            assert is_read
        except OperationalError:
            assert not is_read
        duration = time.monotonic() - started_at
        send_again()
        return duration

    (duration,) = serve(send)
    assert duration < MAX_SECONDS


def test_obsolete_connection_frees_its_place_in_the_pool(
    settings: Any, monkeypatch: pytest.MonkeyPatch, writers: ConnectionPool
) -> None:
    settings.WRITE_CONNECTIONS = 2
    server = Server("default")
    monkeypatch.setitem(servers, "default", server)
    serve_waiting = writers._serve_waiting

    def serve_during_an_outage() -> None:
        before = len(writers._waiting)
        serve_waiting()
        if len(writers._waiting) < before:  # A connection is being handed over.
            server.generation += 1
            monkeypatch.delattr(writers, "_serve_waiting")

    async def main() -> list[Any]:
        for _ in range(2):
            await run_request(get_pid)
            monkeypatch.setattr(writers, "_serve_waiting", serve_during_an_outage, raising=False)
            requests = [run_request(sleep) for _ in range(3)]
            await asyncio.gather(*requests, return_exceptions=True)
        return [await run_request(get_pid) for _ in range(3)]

    assert len(run(main())) == 3


def test_waiting_writes_retry_opening_a_connection(
    monkeypatch: pytest.MonkeyPatch, writers: ConnectionPool
) -> None:
    attempts = itertools.count(1)

    def fail_once(alias: str) -> BaseDatabaseWrapper:
        if next(attempts) == 2:
            raise OperationalError("temporary failure")
        return connect(alias)

    monkeypatch.setattr(connector, "connect", fail_once)
    connection.ensure_connection()
    lock = connection.connection  # Bypasses Django, which rejects queries on a loop.

    async def main() -> Any:
        lock.execute("SELECT pg_advisory_lock(2)")
        await run_request(get_pid)
        busy = asyncio.ensure_future(run_request(lambda: fetch_value("SELECT pg_advisory_xact_lock(2)")))
        await asyncio.sleep(0.01)
        pid = await run_request(get_pid)
        assert not busy.done()
        lock.execute("SELECT pg_advisory_unlock(2)")
        await busy
        return pid

    assert isinstance(run(main()), int)


def test_cancelled_request_blocks_no_replies_behind_it() -> None:
    async def main() -> list[Any]:
        reader = ReadPipeline("default")
        await run_request(lambda: reader.fetch_rows(SELECT_ONE, []))

        def cancel() -> None:
            reader.fetch_rows(SELECT_ONE, [])
            raise asyncio.CancelledError

        async def start_and_cancel() -> None:
            RequestTask(cancel).start()

        requests = (run_request(lambda: reader.fetch_rows(SELECT_ONE, [])) for _ in range(3))
        return await asyncio.wait_for(asyncio.gather(start_and_cancel(), *requests), MAX_SECONDS)

    assert run(main()) == [None, *[[(1,)]] * 3]


def count_open(connections: list[PostgresqlConnection]) -> int:
    return len([connection for connection in connections if connection.error is None])


def test_idle_connections_are_closed_when_one_does_not_respond(writers: ConnectionPool) -> None:
    async def main() -> tuple[int, int]:
        await asyncio.gather(*(run_request(sleep) for _ in range(6)))
        before = count_open(writers._idle)
        unresponsive = writers._pop_idle()
        assert unresponsive is not None
        unresponsive.fail(ConnectionFailedError("The server did not respond in time."))
        writers.release(unresponsive)
        return before, count_open(writers._idle)

    before, after = run(main())
    assert before > 1
    assert after == 0


def test_confirmed_commit_succeeds_although_the_connection_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deliver_batch = PostgresqlConnection._deliver_batch

    def close_before_sync(self: PostgresqlConnection) -> None:
        if self._results[-1].command_status == b"COMMIT":
            raise ConnectionClosedError("The connection closed before the Sync.")
        deliver_batch(self)

    monkeypatch.setattr(PostgresqlConnection, "_deliver_batch", close_before_sync)
    assert serve(transaction.atomic(sleep)) == [""]


def test_prepared_statement_survives_a_changed_table() -> None:
    read = Statement(b"read_changing", b"SELECT number FROM changing")

    def execute(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    def read_both() -> list[Any]:
        rows = get_read_pipeline("default").fetch_rows(read, [])
        return [*rows[0], fetch_value("SELECT number FROM changing")]

    def read_before_and_after() -> list[Any]:
        execute("CREATE TABLE changing AS SELECT 1 AS number")
        before = read_both()
        execute("ALTER TABLE changing ALTER number TYPE text")
        after = read_both()
        execute("DROP TABLE changing")
        return [before, after]

    assert serve(read_before_and_after) == [[[1, 1], ["1", "1"]]]


def test_connection_that_django_could_not_set_up_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def fail(wrapper: BaseDatabaseWrapper) -> None:
        opened.append(wrapper.connection)
        raise OperationalError("The server is shutting down.")

    monkeypatch.setattr(BaseDatabaseWrapper, "init_connection_state", fail)
    with pytest.raises(OperationalError):
        connect("default")
    assert opened[0].closed
