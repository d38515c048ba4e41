"""Isolation of tests that share a process."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import TransactionTestCase

from accounts.quota.fallback import FallbackQuotaStore
from accounts.usage.write_behind import UsageRecorder
from inventory.fields import known_category_ids
from petstore.event_loop.redis_scripts import ScriptRunner

AUDIT = "backoffice_auditentry"


@pytest.fixture(scope="session")
def database_restored_after_commits() -> Iterator[None]:
    """Restore the database after each test that commits, so that tests run in any order.

    Django restores it only before the next test that commits, so all of those had to run last. The audit
    trail is emptied, too: the tables' owner disables its triggers in the transaction that empties the
    tables. The service itself can't do that.
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
    counters = {"BACKEND": "petstore.cache.local.LocalCounters", "LOCATION": str(tmp_path)}
    settings.CACHES = settings.CACHES | {"counters": counters}
    yield
    caches["counters"].close()


@pytest.fixture
def no_category_was_seen() -> None:
    """Clear the cache of categories."""
    known_category_ids.clear()


@pytest.fixture
def own_recorder(monkeypatch: pytest.MonkeyPatch) -> UsageRecorder:
    """Give each test a usage recorder of its own, which flushes when the test says so."""
    recorder = UsageRecorder()
    monkeypatch.setattr("accounts.usage.write_behind.recorder", recorder)
    return recorder


@pytest.fixture
def closed_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close a test's connections to Redis: the collector would warn of them in a later test.

    Such tests share a Redis with services of other databases.
    """
    monkeypatch.setattr(ScriptRunner, "_check_owner", lambda *_: None)
    made: list[ScriptRunner] = []
    init = ScriptRunner.__init__

    def note(scripts: ScriptRunner, url: str) -> None:
        init(scripts, url)
        made.append(scripts)

    monkeypatch.setattr(ScriptRunner, "__init__", note)
    yield
    for scripts in made:
        scripts.close()


@pytest.fixture
def closed_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the threads that wait for a Redis which a test has stopped."""
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
    """All of the above, for tests in which the service runs in their own process."""
