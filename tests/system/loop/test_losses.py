"""What a review of the engine found: connections that end, or fall silent, at the worst moment."""

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
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import end_connection, run, serve, turn

pytestmark = [pytest.mark.django_db, NEEDS_POSTGRESQL]

ONE = Statement(b"one", b"SELECT 1")
OWN = Statement(b"own", b"SELECT pg_backend_pid()")
SLEEP = Statement(b"sleep", b"SELECT pg_sleep(0.05)")
AT_ONCE = 1.0  # Seconds; who is told by a time limit waits six.


@pytest.mark.parametrize("kind", [ReadPipeline, ConnectionPool])
def test_a_connection_that_the_server_ends_is_noticed_at_once_and_only_reads_are_asked_again(
    kind: type[ReadPipeline | ConnectionPool],
) -> None:
    def ask() -> float:
        way = kind("default")
        ((process,),) = way.rows(OWN, [])
        end_connection(process)  # The loop stands still meanwhile: it has not looked at the socket.
        began = time.monotonic()
        try:
            way.rows(OWN, [])
            assert kind is ReadPipeline  # A read is asked again, a write is not.
        except OperationalError:
            assert kind is ConnectionPool
        seconds = time.monotonic() - began
        assert way.rows(ONE, []) == [(1,)]
        return seconds

    (seconds,) = serve(ask)
    assert seconds < AT_ONCE


def test_a_connection_that_is_obsolete_when_it_is_handed_on_gives_its_place_back(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WRITE_CONNECTIONS = 2
    server = Server("default")
    monkeypatch.setitem(servers, "default", server)
    writers = ConnectionPool("default")
    attend = writers._serve_waiting

    def attend_in_an_outage() -> None:
        waited = len(writers._waiting)
        attend()
        if len(writers._waiting) < waited:  # A connection is on its way to whoever waited.
            server.generation += 1
            monkeypatch.delattr(writers, "_serve_waiting")

    async def main() -> list[Any]:
        for _ in range(2):
            await turn(lambda: writers.rows(ONE, []))
            monkeypatch.setattr(writers, "_serve_waiting", attend_in_an_outage, raising=False)
            asked = [turn(lambda: writers.rows(SLEEP, [])) for _ in range(3)]
            await asyncio.gather(*asked, return_exceptions=True)
        return [await turn(lambda: writers.rows(ONE, [])) for _ in range(3)]

    assert run(main()) == [[(1,)]] * 3


def test_writes_that_wait_have_another_connection_opened_after_one_failed_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = itertools.count(1)

    def fail_once(alias: str) -> BaseDatabaseWrapper:
        if next(attempts) == 2:
            raise OperationalError("a moment's failure")
        return connect(alias)

    monkeypatch.setattr(opening, "connect", fail_once)
    writers = ConnectionPool("default")
    wait_for_lock = Statement(b"wait_for_lock", b"SELECT pg_advisory_xact_lock(2)")
    connection.ensure_connection()
    lock = connection.connection  # Without Django, which asks nothing on a loop.

    async def main() -> Any:
        lock.execute("SELECT pg_advisory_lock(2)")
        await turn(lambda: writers.rows(ONE, []))
        busy = asyncio.ensure_future(turn(lambda: writers.rows(wait_for_lock, [])))
        await asyncio.sleep(0.01)
        waited = await turn(lambda: writers.rows(ONE, []))
        assert not busy.done()
        lock.execute("SELECT pg_advisory_unlock(2)")
        await busy
        return waited

    assert run(main()) == [(1,)]


def test_a_request_that_is_cancelled_keeps_no_answer_from_those_behind_it() -> None:
    async def main() -> list[Any]:
        reader = ReadPipeline("default")
        await turn(lambda: reader.rows(ONE, []))

        def end() -> None:
            reader.rows(ONE, [])
            raise asyncio.CancelledError

        async def begin_and_end() -> None:
            RequestTask(end).start()

        asked = (turn(lambda: reader.rows(ONE, [])) for _ in range(3))
        return await asyncio.wait_for(asyncio.gather(begin_and_end(), *asked), AT_ONCE)

    assert run(main()) == [None, *[[(1,)]] * 3]


def test_idle_connections_go_when_one_of_them_says_nothing() -> None:
    async def main() -> tuple[int, int]:
        writers = ConnectionPool("default")
        await asyncio.gather(*(turn(lambda: writers.rows(SLEEP, [])) for _ in range(6)))
        before = len([one for one in writers._idle if one.error is None])
        silent = writers._next_idle()
        assert silent is not None
        silent.fail(ConnectionFailedError("No answer came in time."))
        writers._release(silent)
        return before, len([one for one in writers._idle if one.error is None])

    before, after = run(main())
    assert before > 1
    assert after == 0


def test_a_commit_that_was_heard_is_no_failure_though_the_connection_ends_with_it(
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
            return writers.rows(ONE, [])

    assert serve(write) == [[(1,)]]


def test_a_result_that_is_not_of_a_commit_is_no_success_without_its_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end_before_the_sync(self: PostgresqlConnection) -> None:
        raise ConnectionClosedError("The server ended it before the Sync.")

    monkeypatch.setattr(PostgresqlConnection, "_deliver_batch", end_before_the_sync)
    (outcome,) = serve(lambda: ConnectionPool("default").rows(ONE, []))
    assert isinstance(outcome, OperationalError)


def test_a_table_that_changed_under_a_prepared_statement_is_read_on() -> None:
    make = Statement(b"make", b"CREATE TABLE changing AS SELECT 1 AS number")
    change = Statement(b"change", b"ALTER TABLE changing ALTER number TYPE text")
    read = Statement(b"read_changing", b"SELECT number FROM changing")
    drop = Statement(b"drop", b"DROP TABLE changing")
    reader, writers = ReadPipeline("default"), ConnectionPool("default")

    def read_around() -> list[Any]:
        writers.rows(make, [])
        found = [reader.rows(read, []), writers.rows(read, [])]
        writers.rows(change, [])
        found += [reader.rows(read, []), writers.rows(read, [])]
        writers.rows(drop, [])
        return found

    assert serve(read_around) == [[[(1,)], [(1,)], [("1",)], [("1",)]]]
