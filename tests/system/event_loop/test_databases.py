"""The database monitor, timeouts, and connections during outages."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from socket import create_server
from typing import Any

import pytest
from django.db import InternalError, OperationalError, connection, connections, transaction
from django.test import Client
from psycopg.errors import ReadOnlySqlTransaction

from accounts.models import Account
from petstore.api.errors import ErrorCode, convert_exception
from petstore.db import base, monitor
from petstore.db.base import DatabaseWrapper, wait_for_monitor
from petstore.db.event_loop.connector import connect
from petstore.db.monitor import DatabaseUnavailableError, Server
from tests.conftest import COMMITTED, Api
from tests.support.skips import NEEDS_POSTGRESQL

KEEPALIVES = ("idle", "interval", "count")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The state of the server, as in a serving process but without a monitor thread."""
    server = Server("default")
    monkeypatch.setitem(monitor.servers, "default", server)
    return server


@pytest.fixture
def wrapper(db: None, server: Server) -> Iterator[DatabaseWrapper]:
    """A separate connection."""
    wrapper = connections.create_connection("default")
    assert isinstance(wrapper, DatabaseWrapper)
    yield wrapper
    wrapper.close()


@NEEDS_POSTGRESQL
def test_query_fails_when_the_monitor_finds_the_server_unavailable(
    wrapper: DatabaseWrapper, server: Server
) -> None:
    threading.Timer(0.2, setattr, [server, "unavailable", True]).start()
    started_at = time.monotonic()
    with pytest.raises(OperationalError), wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")
    assert time.monotonic() - started_at < 2
    assert wrapper.connection.closed


@NEEDS_POSTGRESQL
def test_query_fails_on_an_unresponsive_connection_of_an_available_server(
    wrapper: DatabaseWrapper, settings: Any
) -> None:
    wrapper.connect()
    wrapper.connection.response_timeout = 0.3  # Simulates a dead connection.
    started_at = time.monotonic()
    with pytest.raises(OperationalError), wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(3)")
    assert time.monotonic() - started_at < 2
    assert wrapper.connection.closed


@NEEDS_POSTGRESQL
def test_connecting_fails_while_the_server_is_unavailable(wrapper: DatabaseWrapper, server: Server) -> None:
    server.unavailable = True
    with pytest.raises(DatabaseUnavailableError):
        wrapper.connect()
    server.unavailable = False
    wrapper.connect()


def test_connecting_waits_for_a_slow_monitor(server: Server) -> None:
    server.query_sent_at = time.monotonic() - base.SLOW_SECONDS - 1

    threading.Timer(0.2, setattr, [server, "unavailable", True]).start()
    with pytest.raises(DatabaseUnavailableError):
        wait_for_monitor(server)


@NEEDS_POSTGRESQL
def test_connection_from_before_an_outage_is_closed(wrapper: DatabaseWrapper, server: Server) -> None:
    wrapper.connect()
    wrapper.close_if_unusable_or_obsolete()
    assert wrapper.connection is not None
    server.generation += 1
    wrapper.close_if_unusable_or_obsolete()
    assert wrapper.connection is None


@NEEDS_POSTGRESQL
def test_statements_of_a_serving_process_have_a_timeout(wrapper: DatabaseWrapper) -> None:
    wrapper.settings_dict = wrapper.settings_dict | {"STATEMENT_TIMEOUT": 50}
    with pytest.raises(OperationalError, match="statement timeout"), wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")


def show(wrapper: Any, *names: str) -> list[str]:
    """Return settings of a connection."""
    values = []
    with wrapper.cursor() as cursor:
        for name in names:
            cursor.execute(f"SHOW {name}")
            values += cursor.fetchone()
    return values


@NEEDS_POSTGRESQL
def test_serving_process_compiles_nothing_and_detects_a_dead_machine_within_15_seconds(
    wrapper: DatabaseWrapper,
) -> None:
    """PostgreSQL would compile a staff list for longer than it takes to read it."""
    assert show(wrapper, "jit", "tcp_user_timeout") == ["off", "15000"]
    idle, interval, count = map(int, show(wrapper, *(f"tcp_keepalives_{one}" for one in KEEPALIVES)))
    assert idle + interval * count <= 15


@NEEDS_POSTGRESQL
def test_commands_have_no_timeout(db: None) -> None:
    with closing(connections.create_connection("default")) as wrapper:
        names = ("statement_timeout", "idle_in_transaction_session_timeout")
        assert show(wrapper, *names) == ["0", "0"]


@pytest.fixture
def loop_cursor(db: None) -> Iterator[Any]:
    """Yield a cursor of a connection as the event loop opens it."""
    wrapper = connect("default")
    with wrapper.cursor() as cursor:
        yield cursor
    wrapper.close()


@NEEDS_POSTGRESQL
def test_loop_uses_indexes_of_small_tables(loop_cursor: Any) -> None:
    """PostgreSQL keeps the plans of prepared statements while the table grows."""
    loop_cursor.execute("CREATE TEMPORARY TABLE small AS SELECT 1 AS id")
    loop_cursor.execute("CREATE INDEX ON small (id)")
    loop_cursor.execute("EXPLAIN SELECT id FROM small WHERE id = 1")
    assert "Seq Scan" not in str(loop_cursor.fetchall())


@NEEDS_POSTGRESQL
def test_loop_joins_no_tables_by_merging(loop_cursor: Any) -> None:
    """If one account had all keys at the last ANALYZE, PostgreSQL would merge a key with all accounts."""
    loop_cursor.execute("CREATE TEMPORARY TABLE account AS SELECT generate_series(1, 10000) AS id")
    loop_cursor.execute("CREATE TEMPORARY TABLE key AS SELECT id, 1 AS account_id FROM account")
    for table in ("account", "key"):
        loop_cursor.execute(f"CREATE UNIQUE INDEX ON {table} (id)")
        loop_cursor.execute(f"ANALYZE {table}")
    loop_cursor.execute(
        "EXPLAIN SELECT key.id FROM key JOIN account ON account.id = account_id WHERE key.id = 7"
    )
    assert "Merge Join" not in str(loop_cursor.fetchall())


@NEEDS_POSTGRESQL
@COMMITTED
def test_locks_of_a_hanging_process_are_released(
    account: Account, wrapper: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(base.SESSION, "idle_in_transaction_session_timeout", 100)
    lock_rows = "SELECT id FROM accounts_account FOR UPDATE"
    with transaction.atomic(), connection.cursor() as cursor:
        wrapper.set_autocommit(False)
        with wrapper.cursor() as hanging_cursor:
            hanging_cursor.execute(lock_rows)
        cursor.execute("SET LOCAL lock_timeout = '20s'")
        cursor.execute(lock_rows)
        assert cursor.fetchall() == [(account.pk,)]


@NEEDS_POSTGRESQL
def test_read_only_connection_is_unusable_if_a_primary_is_required(
    wrapper: DatabaseWrapper,
) -> None:
    options = wrapper.settings_dict["OPTIONS"]
    with wrapper.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    assert wrapper.is_usable()
    wrapper.settings_dict = wrapper.settings_dict | {
        "OPTIONS": options | {"target_session_attrs": "read-write"}
    }
    assert not wrapper.is_usable()


# The monitor


@NEEDS_POSTGRESQL
def test_monitor_records_the_wal_position(db: None, server: Server) -> None:
    server.poll()
    server.poll()
    first, second = server.positions
    assert (server.unavailable, server.is_standby, server.query_sent_at) == (False, False, 0)
    assert first.timestamp < second.timestamp < time.monotonic()
    assert 0 < first.lsn <= second.lsn
    assert server._connection is not None
    server._connection.close()


@NEEDS_POSTGRESQL
def test_monitor_reconnects_when_its_connection_closes(db: None, server: Server) -> None:
    server.poll()
    assert server._connection is not None
    server._connection.close()
    server.poll()
    assert (server.unavailable, server.generation) == (False, 0)
    server._connection.close()


@NEEDS_POSTGRESQL
def test_outage_is_logged_once_and_ends_with_a_response(
    db: None, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings_dict: dict[str, Any] = connections.settings["default"]
    with caplog.at_level(logging.WARNING, "petstore.db.monitor"):
        with monkeypatch.context() as patch:
            patch.setitem(settings_dict, "HOST", "127.0.0.1")
            patch.setitem(settings_dict, "PORT", "1")
            server.poll()
            server.poll()
        assert (server.unavailable, server.generation, server.positions) == (True, 1, ())
        server.poll()
    assert (server.unavailable, server.generation) == (False, 1)
    assert server._connection is not None
    server._connection.close()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "The database 'default' is unavailable",
        "The database 'default' is available again.",
    ]


@NEEDS_POSTGRESQL
def test_server_that_accepts_connections_but_does_not_respond_is_unavailable(
    db: None, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_dict: dict[str, Any] = connections.settings["default"]
    with create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setitem(settings_dict, "HOST", "127.0.0.1")
        monkeypatch.setitem(settings_dict, "PORT", str(listener.getsockname()[1]))
        started_at = time.monotonic()
        server.poll()
        assert time.monotonic() - started_at < 3
    assert server.unavailable


# Responses


def test_write_on_a_server_that_became_a_standby_is_a_503() -> None:
    error = InternalError()
    error.__cause__ = ReadOnlySqlTransaction()
    assert convert_exception(error).code is ErrorCode.SERVICE_UNAVAILABLE
    assert convert_exception(InternalError()).code is ErrorCode.INTERNAL_ERROR


def test_outage_logged_by_the_monitor_is_not_logged_for_each_request(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = iter([DatabaseUnavailableError(), OperationalError("connection\nrefused")])

    def fail(*args: Any) -> None:
        raise next(errors)

    monkeypatch.setattr("inventory.views.PetViewSet.list", fail)
    with caplog.at_level(logging.ERROR, "petstore.api.errors"):
        assert api.get("/pets").status_code == 503
        assert caplog.records == []
        assert api.get("/pets").status_code == 503
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().endswith("OperationalError: connection refused")


def test_pages_do_not_wait_for_an_unavailable_database(client: Client, server: Server) -> None:
    server.unavailable = True
    response = client.get("/readyz")
    assert (response.status_code, response.json()["database"]) == (503, "unreachable")
