"""Isolation of tests that share a process."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import caches

from accounts.quota import anonymous, store
from accounts.quota.anonymous import LookupLimiter
from accounts.usage.write_behind import UsageRecorder
from inventory.fields import known_category_ids


@pytest.fixture
def isolated_counters(settings: Any, tmp_path: Any) -> Iterator[None]:
    counters = {"BACKEND": "petstore.cache.local.LocalCounters", "LOCATION": str(tmp_path)}
    settings.CACHES = settings.CACHES | {"counters": counters}
    yield
    caches["counters"].close()


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
def lookup_limiter(monkeypatch: pytest.MonkeyPatch) -> LookupLimiter:
    """Give each test a limiter without restricted networks."""
    limiter = LookupLimiter()
    for module in (anonymous, store):
        monkeypatch.setattr(module, "lookup_limiter", limiter)
    return limiter


@pytest.fixture
def isolated(
    isolated_counters: None,
    empty_category_cache: None,
    lookup_limiter: LookupLimiter,
    usage_recorder: UsageRecorder,
) -> None:
    """Isolate tests that run the service in their own process."""
