"""Requests on the event loop that wait too long for a connection get a 503."""

import asyncio
from typing import Any

import pytest
from django.db import OperationalError, connection

from petstore.api.errors import ErrorCode, convert_exception
from petstore.db.event_loop import greenlets
from petstore.db.event_loop.connection_pool import ConnectionPool
from tests.conftest import COMMITTED
from tests.support.event_loop import run, run_request
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.sql import fetch_value


@NEEDS_POSTGRESQL
@COMMITTED
def test_write_that_gets_no_connection_in_time_is_a_503(
    settings: Any, monkeypatch: pytest.MonkeyPatch, writers: ConnectionPool
) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "STATEMENT_TIMEOUT", 30_000)
    settings.QUEUE_TIMEOUT = 30_000
    settings.WRITE_CONNECTIONS = count = 3
    connection.ensure_connection()
    lock = connection.connection  # Bypasses Django, which rejects queries on a loop.

    def check_all_wait() -> None:
        database = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        condition = f"database = {database} AND locktype = 'advisory' AND NOT granted"
        cursor = lock.execute(f"SELECT count(*) FROM pg_locks WHERE {condition}")
        assert cursor.fetchone() == (count,)

    def write() -> Any:
        return run_request(lambda: fetch_value("SELECT pg_advisory_xact_lock_shared(1)"))

    async def main() -> tuple[list[Any], list[Any]]:
        lock.execute("SELECT pg_advisory_lock(1)")
        served = [asyncio.create_task(write()) for _ in range(count)]
        await asyncio.to_thread(wait_until, check_all_wait)
        settings.QUEUE_TIMEOUT = 100
        errors = await asyncio.gather(write(), write(), return_exceptions=True)
        lock.execute("SELECT pg_advisory_unlock(1)")
        return list(errors), await asyncio.gather(*served)

    errors, served = run(main())
    assert [str(error) for error in errors] == [greenlets.QUEUED_TOO_LONG] * 2
    assert all(isinstance(error, OperationalError) for error in errors)
    assert {convert_exception(error).code for error in errors} == {ErrorCode.SERVICE_UNAVAILABLE}
    assert len(served) == len(writers._idle) == count
    assert not writers._waiting
