"""Failures around the quota: of the database, of clocks and of keys that are deleted."""

from typing import Any

import pytest
from django.db import OperationalError

from accounts.quota import store
from accounts.quota.limits import DAY, SECOND
from tests.conftest import Api
from tests.support.quota import NOON, Sender


@pytest.mark.parametrize("seconds", [2, 6, 600])
def test_two_clocks_at_midnight_admit_one_days_limit(db: None, seconds: int) -> None:
    acme = Sender(per_minute=1_000, per_day=10)
    midnight = NOON - NOON % DAY + DAY
    acme.now = midnight
    admitted = acme.send().admitted + 0
    for number in range(1, 10):  # One clock is past midnight, the other is not.
        acme.now = midnight + number * SECOND - (number % 2) * seconds * SECOND
        admitted += acme.admitted(5)
    assert admitted == 10


def test_database_outage_counts_for_no_address(
    api: Api, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5

    def fail(*arguments: Any, **options: Any) -> Any:
        raise OperationalError("unavailable")

    monkeypatch.setattr(store, "execute_counting", fail)
    responses = [api.get("/pets") for _ in range(8)]
    assert {response.status_code for response in responses} == {503}
    assert all(int(response.headers["Retry-After"]) >= 1 for response in responses)
    assert {response.headers["X-RateLimit-Limit"] for response in responses} == {"5"}
    assert {response.headers["X-RateLimit-Remaining"] for response in responses} == {"5"}
    monkeypatch.undo()
    assert api.get("/pets").status_code == 200
