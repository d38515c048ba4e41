"""The counters of attempts, which all machines share (petstore.sign_in.cache.CounterCache)."""

from itertools import chain

import pytest
from django.db import transaction
from django.test import RequestFactory

from accounts.quota.limits import SECOND
from accounts.usage.write_behind import clean_up
from petstore.sign_in.cache import CounterCache
from petstore.sign_in.models import AttemptCounter
from petstore.sign_in.rate_limits import count_attempt
from tests.conftest import COMMITTED
from tests.support.concurrency import run_concurrently
from tests.support.isolation import Clock

pytestmark = [pytest.mark.each_database, COMMITTED]
ATTEMPTS = 24


@pytest.fixture
def counters() -> CounterCache:
    return CounterCache("", {})


def test_of_concurrent_attempts_exactly_the_limit_is_admitted(rf: RequestFactory, clock: Clock) -> None:
    limits = [("test", "subject", "10/d")]
    results = run_concurrently(*[lambda: count_attempt(rf.get("/"), limits)] * ATTEMPTS)
    assert sum(wait == 0 for wait in results) == 10
    assert AttemptCounter.objects.get().value == ATTEMPTS


def test_concurrent_increments_are_exact(counters: CounterCache) -> None:
    counters.add("attempts", 0, 60)
    results = run_concurrently(*[lambda: [counters.incr("attempts") for _ in range(20)]] * 8)
    assert sorted(chain.from_iterable(results)) == list(range(1, 161))


def test_of_concurrent_additions_one_succeeds(counters: CounterCache, clock: Clock) -> None:
    for _ in range(3):  # The first time the row is new, later it is expired.
        assert sum(run_concurrently(*[lambda: counters.add("attempts", 1, 60)] * 8)) == 1
        clock.now += 60


def test_counter_expires_at_its_timeout_and_counting_does_not_extend_it(
    counters: CounterCache, clock: Clock
) -> None:
    assert counters.add("attempts", 1, 60)
    clock.now += 59.5
    assert not counters.add("attempts", 1, 60)
    assert counters.incr("attempts") == counters.get("attempts") == 2
    clock.now += 0.5
    assert counters.get("attempts", "none") == "none"
    with pytest.raises(ValueError, match="attempts"):
        counters.incr("attempts")
    assert counters.add("attempts", 1, 60)
    assert counters.get("attempts") == 1


def test_value_that_is_set_replaces_the_counter_and_its_timeout(
    counters: CounterCache, clock: Clock
) -> None:
    for value, seconds in ((5, 60), (7, 120)):
        counters.set("attempts", value, seconds)
    clock.now += 119
    assert counters.get("attempts") == 7
    clock.now += 1
    assert counters.get("attempts") is None


def test_expired_counters_are_deleted(counters: CounterCache, clock: Clock) -> None:
    for name, seconds in (("expired", 60), ("current", 61)):
        counters.add(name, 1, seconds)
    clean_up(int(clock.now + 60) * SECOND)
    assert counters.get("current") == AttemptCounter.objects.get().value == 1


@pytest.mark.parametrize("method", ["add", "incr"])
def test_attempts_are_not_counted_in_a_transaction_that_could_be_rolled_back(
    counters: CounterCache, method: str
) -> None:
    counters.add("attempts", 1, 60)
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        getattr(counters, method)("attempts", 1)
