"""The limits of attempts, which all machines share (petstore.sign_in.models.AttemptCounter)."""

import pytest
from django.db import transaction
from django.test import RequestFactory

from accounts.quota.limits import SECOND
from accounts.usage.write_behind import clean_up
from petstore.sign_in.models import AttemptCounter
from petstore.sign_in.rate_limits import count_attempt
from tests.conftest import COMMITTED
from tests.support.concurrency import run_concurrently
from tests.support.isolation import Clock

pytestmark = [pytest.mark.each_database, COMMITTED]
ATTEMPTS = 24


def test_of_concurrent_attempts_exactly_the_limit_is_admitted(rf: RequestFactory, clock: Clock) -> None:
    limits = [("test", "subject", (10, 60))]
    for _ in range(3):  # The first time the row is new, later its window has ended.
        results = run_concurrently(*[lambda: count_attempt(rf.get("/"), limits)] * ATTEMPTS)
        assert sum(wait == 0 for wait in results) == 10
        assert AttemptCounter.objects.get().value == ATTEMPTS
        clock.now += 60


def test_window_starts_with_the_first_attempt_and_later_ones_do_not_extend_it(clock: Clock) -> None:
    assert AttemptCounter.count("attempts", 60) == (1, 60)
    clock.now += 59.5
    assert AttemptCounter.count("attempts", 60) == (2, 0.5)
    clock.now += 0.5
    assert AttemptCounter.count("attempts", 60) == (1, 60)


def test_rejected_attempt_says_how_long_to_wait(rf: RequestFactory, clock: Clock) -> None:
    limits = [("test", "subject", (1, 60))]
    assert count_attempt(rf.get("/"), limits) == 0
    assert count_attempt(rf.get("/"), limits) == 60
    clock.now += 59.5
    assert count_attempt(rf.get("/"), limits) == 1
    clock.now += 0.5
    assert count_attempt(rf.get("/"), limits) == 0


def test_ended_windows_are_deleted(clock: Clock) -> None:
    for name, seconds in (("ended", 60), ("current", 61)):
        AttemptCounter.count(name, seconds)
    clean_up(int(clock.now + 60) * SECOND)
    assert AttemptCounter.objects.get().expires == clock.now + 61


def test_attempts_are_not_counted_in_a_transaction_that_could_be_rolled_back() -> None:
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        AttemptCounter.count("attempts", 60)
