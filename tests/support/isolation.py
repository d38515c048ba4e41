"""Isolation of tests that share a process."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import caches

from accounts.quota.fallback import FallbackQuotaStore
from accounts.usage.write_behind import UsageRecorder
from inventory.fields import known_category_ids
from petstore.event_loop.redis_scripts import ScriptRunner


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
