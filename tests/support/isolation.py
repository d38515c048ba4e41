"""What keeps tests in one process apart: nothing that one leaves behind meets another."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import TransactionTestCase

from accounts.quota.fallback import FallbackQuotaStore
from accounts.usage.write_behind import UsageRecorder
from inventory.fields import seen_categories
from petstore.event_loop.redis_scripts import Scripts

AUDIT = "backoffice_auditentry"


@pytest.fixture(scope="session")
def database_restored_after_commits() -> Iterator[None]:
    """Give each test the database as the migrations left it, in any order, also after a test that commits.

    Django restores it before the next test that commits, so that all of those had to come last.
    The audit trail is emptied, too: the tables' owner disables its triggers in the transaction that empties
    the tables. Nothing of the service can do it.
    """
    flush = BaseDatabaseOperations.execute_sql_flush

    def flush_all(operations: Any, statements: list[str]) -> None:
        if operations.connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                found = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
                triggers = cursor.execute(found).fetchall()
            drops = [f'DROP TRIGGER "{name}"' for name, _ in triggers]
            statements = [*drops, *statements, *(sql for _, sql in triggers)]
        else:
            rest, wake = (f"ALTER TABLE {AUDIT} {verb} TRIGGER USER" for verb in ("DISABLE", "ENABLE"))
            statements = [rest, *statements, wake]
        flush(operations, statements)

    database: Any = connection
    test_case: Any = TransactionTestCase
    empty = test_case._fixture_teardown

    def empty_and_restore(case: Any) -> None:
        empty(case)
        database.creation.deserialize_db_from_string(database._test_serialized_contents)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", flush_all)
        patch.setattr(test_case, "_fixture_setup", classmethod(lambda _: None))
        patch.setattr(test_case, "_fixture_teardown", empty_and_restore)
        yield


@pytest.fixture
def own_counters(settings: Any, tmp_path: Any) -> Iterator[None]:
    """Give each test counters of its own."""
    settings.CACHES = {
        "default": {"BACKEND": "petstore.cache.machine.MachineCounters", "LOCATION": str(tmp_path)}
    }
    yield
    cache.close()


@pytest.fixture
def no_category_was_seen() -> None:
    """Let no test know categories of another."""
    seen_categories.clear()


@pytest.fixture
def own_recorder(monkeypatch: pytest.MonkeyPatch) -> UsageRecorder:
    """Give each test a usage recorder of its own, which writes when the test says so."""
    recorder = UsageRecorder()
    monkeypatch.setattr("accounts.usage.write_behind.recorder", recorder)
    return recorder


@pytest.fixture
def closed_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test has opened to Redis: the collector would warn of it, in whatever test it comes.

    Such tests share a Redis with services of other databases.
    """
    monkeypatch.setattr(Scripts, "_check", lambda *_: None)
    made: list[Scripts] = []
    init = Scripts.__init__

    def note(scripts: Scripts, url: str) -> None:
        init(scripts, url)
        made.append(scripts)

    monkeypatch.setattr(Scripts, "__init__", note)
    yield
    for scripts in made:
        scripts.close()


@pytest.fixture
def closed_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the threads that look for a Redis which a test has lost: they would meet the next tests."""
    made: list[FallbackQuotaStore] = []
    init = FallbackQuotaStore.__init__

    def note(store: FallbackQuotaStore, redis: Any, database: Any) -> None:
        init(store, redis, database)
        made.append(store)

    monkeypatch.setattr(FallbackQuotaStore, "__init__", note)
    yield
    for store in made:
        store.close()


@pytest.fixture
def apart(
    own_counters: None,
    no_category_was_seen: None,
    own_recorder: UsageRecorder,
    closed_scripts: None,
    closed_stores: None,
) -> None:
    """Everything of the above, for tests in which the service runs in their own process."""
