"""Failures around the quota: of the database, of clocks and of keys that are deleted."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import OperationalError

from accounts.keys.identity import KeyRejectionReason
from accounts.models import ApiKey
from accounts.quota.limits import DAY, SECOND
from accounts.usage.write_behind import UsageRecorder
from petstore.event_loop.counting import CountingStatement
from tests.conftest import Api
from tests.support.live import Service, live_service
from tests.support.quota import NOON, Sender
from tests.support.servers import wait_until


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


def test_deleted_key_is_unknown_and_its_usage_fails_no_write(
    db: None, usage_recorder: UsageRecorder
) -> None:
    acme = Sender(per_minute=5, per_day=100)
    acme.send()
    ApiKey.objects.filter(pk=acme.keys[0].pk)._raw_delete("default")
    usage_recorder.write()
    assert acme.admit().rejection is KeyRejectionReason.UNKNOWN


def test_database_outage_counts_for_no_address(
    api: Api, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5

    def fail(*arguments: Any, **options: Any) -> Any:
        raise OperationalError("unavailable")

    monkeypatch.setattr(CountingStatement, "execute", fail)
    responses = [api.get("/pets") for _ in range(8)]
    assert {response.status_code for response in responses} == {503}
    assert all(int(response.headers["Retry-After"]) >= 1 for response in responses)
    assert {response.headers["X-RateLimit-Limit"] for response in responses} == {"5"}
    assert {response.headers["X-RateLimit-Remaining"] for response in responses} == {"5"}
    monkeypatch.undo()
    assert api.get("/pets").status_code == 200


# --- On the production server


def read_metric(service: Service, name: str) -> float:
    """Return a value of /metrics, which any worker reports for all workers."""
    page = httpx.get(f"{service.url}/metrics").text
    match = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    assert match is not None, page
    return float(match[1])


def test_usage_is_in_the_database_after_a_stop(tmp_path: Path) -> None:
    with live_service(tmp_path, workers=2) as service:
        issued = service.issue("Counted", "free")
        with service.client(issued["key"]) as client:
            codes = Counter(client.get("/pets?limit=1").status_code for _ in range(70))
        assert codes == {200: 60, 429: 10}
        rejected = 'petstore_quota_decisions_total{counted_for="account",outcome="rate_limit_exceeded"}'
        wait_until(lambda: read_metric(service, rejected) == 10)  # Workers update metrics with a delay.
        service.stop()
        script = (
            "from accounts.models import DailyUsage\n"
            f"usage = DailyUsage.objects.get(key__public_id='{issued['id']}')\n"
            "print(usage.admitted, usage.rejected)"
        )
        assert service.manage("shell", "-v", "0", "-c", script).split() == ["60", "10"]
