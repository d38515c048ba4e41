"""Isolation of tests that share a process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accounts.quota import anonymous
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.limits import MINUTE
from accounts.usage.write_behind import UsageRecorder
from inventory.fields import known_category_ids
from petstore.cache import local
from petstore.cache.local import LocalCounters
from petstore.event_loop.redis_scripts import ScriptRunner


@pytest.fixture
def isolated_counters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each test counters of anonymous requests of its own, in a small file."""
    monkeypatch.setattr(local, "BUCKETS", 64)
    monkeypatch.setattr(anonymous, "counters", LocalCounters(tmp_path / "counters", "secret", MINUTE))


@pytest.fixture
def empty_category_cache() -> None:
    """Clear the cache of category IDs."""
    known_category_ids.clear()


@pytest.fixture
def usage_recorder(monkeypatch: pytest.MonkeyPatch) -> UsageRecorder:
    """Give each test a usage recorder of its own, which flushes only on request."""
    recorder = UsageRecorder()
    monkeypatch.setattr("accounts.usage.write_behind.recorder", recorder)
    return recorder


@pytest.fixture
def close_redis_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close a test's connections to Redis: the collector would warn of them in a later test.

    Such tests share a Redis with services of other databases.
    """
    monkeypatch.setattr(ScriptRunner, "_check_owner", lambda *_: None)
    created: list[ScriptRunner] = []
    init = ScriptRunner.__init__

    def record(scripts: ScriptRunner, url: str) -> None:
        init(scripts, url)
        created.append(scripts)

    monkeypatch.setattr(ScriptRunner, "__init__", record)
    yield
    for scripts in created:
        scripts.close()


@pytest.fixture
def close_fallback_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the threads that wait for a Redis which a test has stopped."""
    created: list[FallbackQuotaStore] = []
    init = FallbackQuotaStore.__init__

    def record(store: FallbackQuotaStore, redis: Any, database: Any) -> None:
        init(store, redis, database)
        created.append(store)

    monkeypatch.setattr(FallbackQuotaStore, "__init__", record)
    yield
    for store in created:
        store.close()


@pytest.fixture
def isolated(
    isolated_counters: None,
    empty_category_cache: None,
    usage_recorder: UsageRecorder,
    close_redis_scripts: None,
    close_fallback_stores: None,
) -> None:
    """Isolate tests that run the service in their own process."""
