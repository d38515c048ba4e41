"""Connections that close or stop responding at the worst time."""

import asyncio
import itertools
import time
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from petstore.db.monitor import Server, servers
from petstore.event_loop import opening
from petstore.event_loop.connection import ConnectionClosedError, ConnectionFailedError
from petstore.event_loop.connection_pool import ConnectionPool
from petstore.event_loop.greenlets import RequestTask
from petstore.event_loop.libpq import Statement
from petstore.event_loop.opening import connect
from petstore.event_loop.pg_connection import PostgresqlConnection, ReadPipeline
from tests.support.event_loop import run, run_request, serve, terminate_backend
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = [pytest.mark.django_db, NEEDS_POSTGRESQL]

ONE = Statement(b"one", b"SELECT 1")
OWN = Statement(b"own", b"SELECT pg_backend_pid()")
SLEEP = Statement(b"sleep", b"SELECT pg_sleep(0.05)")
AT_ONCE = 1.0  # Seconds; the timeout is six.


@pytest.mark.parametrize("kind", [ReadPipeline, ConnectionPool])
def test_closed_connection_is_detected_at_once_and_only_reads_are_retried(
    kind: type[ReadPipeline | ConnectionPool],
) -> None:
    def ask() -> float:
        way = kind("default")
        ((process,),) = way.fetch_rows(OWN, [])
        terminate_backend(process)  # Blocks the loop, which can't have read the socket yet.
        began = time.monotonic()
        try:
            way.fetch_rows(OWN, [])
            assert kind is ReadPipeline  # Reads are retried, writes are not.
        except OperationalError:
            assert kind is ConnectionPool
        seconds = time.monotonic() - began
        assert way.fetch_rows(ONE, []) == [(1,)]
        return seconds

    (seconds,) = serve(ask)
    assert seconds < AT_ONCE


def test_obsolete_connection_frees_its_place_in_the_pool(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WRITE_CONNECTIONS = 2
    server = Server("default")
    monkeypatch.setitem(servers, "default", server)
    writers = ConnectionPool("default")
    serve_waiting = writers._serve_waiting

    def serve_during_an_outage() -> None:
        waited = len(writers._waiting)
        serve_waiting()
        if len(writers._waiting) < waited:  # A connection is being handed over.
            server.generation += 1
            monkeypatch.delattr(writers, "_serve_waiting")

    async def main() -> list[Any]:
        for _ in range(2):
            await run_request(lambda: writers.fetch_rows(ONE, []))
            monkeypatch.setattr(writers, "_serve_waiting", serve_during_an_outage, raising=False)
            asked = [run_request(lambda: writers.fetch_rows(SLEEP, [])) for _ in range(3)]
            await asyncio.gather(*asked, return_exceptions=True)
        return [await run_request(lambda: writers.fetch_rows(ONE, [])) for _ in range(3)]

    assert run(main()) == [[(1,)]] * 3


def test_waiting_writes_retry_opening_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = itertools.count(1)

    def fail_once(alias: str) -> BaseDatabaseWrapper:
        if next(attempts) == 2:
            raise OperationalError("temporary failure")
        return connect(alias)

    monkeypatch.setattr(opening, "connect", fail_once)
    writers = ConnectionPool("default")
    wait_for_lock = Statement(b"wait_for_lock", b"SELECT pg_advisory_xact_lock(2)")
    connection.ensure_connection()
    lock = connection.connection  # Not through Django, which rejects queries on a loop.

    async def main() -> Any:
        lock.execute("SELECT pg_advisory_lock(2)")
        await run_request(lambda: writers.fetch_rows(ONE, []))
        busy = asyncio.ensure_future(run_request(lambda: writers.fetch_rows(wait_for_lock, [])))
        await asyncio.sleep(0.01)
        waited = await run_request(lambda: writers.fetch_rows(ONE, []))
        assert not busy.done()
        lock.execute("SELECT pg_advisory_unlock(2)")
        await busy
        return waited

    assert run(main()) == [(1,)]


def test_cancelled_request_blocks_no_replies_behind_it() -> None:
    async def main() -> list[Any]:
        reader = ReadPipeline("default")
        await run_request(lambda: reader.fetch_rows(ONE, []))

        def end() -> None:
            reader.fetch_rows(ONE, [])
            raise asyncio.CancelledError

        async def begin_and_end() -> None:
            RequestTask(end).start()

        asked = (run_request(lambda: reader.fetch_rows(ONE, [])) for _ in range(3))
        return await asyncio.wait_for(asyncio.gather(begin_and_end(), *asked), AT_ONCE)

    assert run(main()) == [None, *[[(1,)]] * 3]


def test_idle_connections_are_closed_when_one_does_not_respond() -> None:
    async def main() -> tuple[int, int]:
        writers = ConnectionPool("default")
        await asyncio.gather(*(run_request(lambda: writers.fetch_rows(SLEEP, [])) for _ in range(6)))
        before = len([one for one in writers._idle if one.error is None])
        silent = writers._next_idle()
        assert silent is not None
        silent.fail(ConnectionFailedError("No answer came in time."))
        writers._release(silent)
        return before, len([one for one in writers._idle if one.error is None])

    before, after = run(main())
    assert before > 1
    assert after == 0


def test_confirmed_commit_succeeds_although_the_connection_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = PostgresqlConnection._deliver_batch

    def end_before_the_sync(self: PostgresqlConnection) -> None:
        if self._results[-1].command_status == b"COMMIT":
            raise ConnectionClosedError("The server ended it before the Sync.")
        real(self)

    monkeypatch.setattr(PostgresqlConnection, "_deliver_batch", end_before_the_sync)
    writers = ConnectionPool("default")

    def write() -> Any:
        with writers.transaction():
            return writers.fetch_rows(ONE, [])

    assert serve(write) == [[(1,)]]


def test_result_without_its_sync_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end_before_the_sync(self: PostgresqlConnection) -> None:
        raise ConnectionClosedError("The server ended it before the Sync.")

    monkeypatch.setattr(PostgresqlConnection, "_deliver_batch", end_before_the_sync)
    (outcome,) = serve(lambda: ConnectionPool("default").fetch_rows(ONE, []))
    assert isinstance(outcome, OperationalError)


def test_prepared_statement_survives_a_changed_table() -> None:
    make = Statement(b"make", b"CREATE TABLE changing AS SELECT 1 AS number")
    change = Statement(b"change", b"ALTER TABLE changing ALTER number TYPE text")
    read = Statement(b"read_changing", b"SELECT number FROM changing")
    drop = Statement(b"drop", b"DROP TABLE changing")
    reader, writers = ReadPipeline("default"), ConnectionPool("default")

    def read_around() -> list[Any]:
        writers.fetch_rows(make, [])
        found = [reader.fetch_rows(read, []), writers.fetch_rows(read, [])]
        writers.fetch_rows(change, [])
        found += [reader.fetch_rows(read, []), writers.fetch_rows(read, [])]
        writers.fetch_rows(drop, [])
        return found

    assert serve(read_around) == [[[(1,)], [(1,)], [("1",)], [("1",)]]]
