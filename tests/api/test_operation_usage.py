"""Requests by operation and status, which add up to the requests that the quota counted."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.models import Account, DailyUsage, OperationUsage, PlanCode
from accounts.quota.limits import HOUR
from accounts.usage import retention
from accounts.usage.batch import Batch
from accounts.usage.write_behind import UsageRecorder
from tests.conftest import OPERATOR, Api
from tests.support.quota import NOON


def get_usage(hours: int = OperationUsage.DAY) -> dict[tuple[str, int], int]:
    rows = OperationUsage.objects.filter(hours=hours)
    return {(row.operation, row.status): row.requests for row in rows}


def test_requests_are_counted_by_operation(
    account: Account, issue: Any, usage_recorder: UsageRecorder
) -> None:
    account.assign(PlanCode.ENTERPRISE, per_minute=9, per_day=500)
    api = Api(issue(key_scopes=["pets:read"])[1])
    etag = api.get("/pets")["ETag"]
    api.get("/pets")
    api.get("/pets", If_None_Match=etag)
    api.get("/pets?limit=x")
    api.get("/pets/9999")
    api.post("/pets", {"name": "Rex"})
    api("DELETE", "/pets/9999")
    api.get("/nowhere")
    api("BREW", "/pets")
    for _ in range(2):
        api.get("/pets")
    api.get("/account")  # Costs nothing of the quota.
    account.suspend(reason="Unpaid", by=OPERATOR)
    for client in (api, Api(None), Api("psk_live_x")):  # Their keys are rejected.
        assert client.get("/pets").status_code in {401, 403}
    usage_recorder.write()
    expected = {
        ("GET /v1/pets", 200): 2, ("GET /v1/pets", 304): 1, ("GET /v1/pets", 400): 1,
        ("GET /v1/pets/{petId}", 404): 1, ("POST /v1/pets", 403): 1, ("GET /v1/pets", 429): 2,
        ("(no such operation)", 404): 1, ("(no such operation)", 405): 2,
    }  # fmt: skip
    assert get_usage() == get_usage(OperationUsage.HOUR) == expected
    daily = DailyUsage.objects.get()
    assert daily.admitted + daily.rejected == sum(expected.values())
    assert daily.rejected == expected["GET /v1/pets", 429]


def test_hours_of_a_day_add_up_and_batches_are_added_except_of_deleted_accounts(account: Account) -> None:
    hour = NOON // HOUR
    for _ in range(2):
        batch = Batch()
        batch.responses.update({(account.pk, "GET /v1/pets", 200, hour + later): 3 for later in range(2)})
        batch.responses[10**9, "GET /v1/pets", 200, hour] = 1
        batch.write(NOON)
    rows = OperationUsage.objects.order_by("hours", "start").values_list("hours", "start", "requests")
    assert list(rows) == [(1, hour, 6), (1, hour + 1, 6), (24, hour - hour % 24, 12)]


@pytest.mark.parametrize(("hours", "kept"), [(1, 48), (24, 92 * 24)])
def test_old_usage_is_pruned(account: Account, hours: int, kept: int) -> None:
    now = NOON // HOUR
    for start in (now - kept - 1, now - kept):
        values = {"operation": "GET /v1/pets", "status": 200, "requests": 1}
        OperationUsage.objects.create(account=account, hours=hours, start=start, **values)
    retention.prune(NOON)
    assert [row.start for row in OperationUsage.objects.all()] == [now - kept]
