"""Isolation of tests that share a process."""

from pathlib import Path

import pytest
from django.core.cache.backends import base
from django_ratelimit import core

from accounts.quota import anonymous, store
from accounts.quota.anonymous import LookupLimiter
from accounts.quota.limits import MINUTE
from accounts.usage.write_behind import UsageRecorder
from petstore.api import local_counters as local
from petstore.api.local_counters import LocalCounters
from petstore.sign_in import cache
from petstore.site import page_limit


@pytest.fixture
def isolated_counters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each test counters of anonymous requests and pages of its own, in small files."""
    monkeypatch.setattr(local, "BUCKETS", 64)
    monkeypatch.setattr(anonymous, "counters", LocalCounters(tmp_path / "counters", "secret", MINUTE))
    monkeypatch.setattr(page_limit, "page_counters", LocalCounters(tmp_path / "pages", "secret", MINUTE))


@pytest.fixture
def usage_recorder(monkeypatch: pytest.MonkeyPatch) -> UsageRecorder:
    """Give each test a usage recorder of its own, which flushes only on request."""
    recorder = UsageRecorder()
    monkeypatch.setattr("accounts.usage.write_behind.recorder", recorder)
    return recorder


@pytest.fixture
def lookup_limiter(monkeypatch: pytest.MonkeyPatch) -> LookupLimiter:
    """Give each test a limiter without known keys."""
    limiter = LookupLimiter()
    monkeypatch.setattr(store, "lookup_limiter", limiter)
    return limiter


class Clock:
    """A fake `time` module."""

    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of django-ratelimit and of its counters, so that no window ends during a test."""
    clock = Clock()
    for module in (core, base, cache):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def isolated(
    isolated_counters: None,
    lookup_limiter: LookupLimiter,
    usage_recorder: UsageRecorder,
) -> None:
    """Isolate tests that run the service in their own process."""
