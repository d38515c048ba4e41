"""Write-behind of usage: a few statements for thousands of keys, and nothing counted twice or left out."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from accounts.models import (
    Account,
    ApiKey,
    DailyUsage,
    DeprecatedUse,
    MinuteCount,
    OperationUsage,
    PlanCode,
)
from accounts.quota.limits import DAY, HOUR, MINUTE, to_datetime
from accounts.usage import batch, retention
from accounts.usage.batch import Batch, write_digests
from accounts.usage.write_behind import UsageRecorder
from tests.conftest import COMMITTED, OPERATOR, Api
from tests.support.concurrency import other_connection, run_concurrently
from tests.support.costs import recorded_statements
from tests.support.quota import NOON
from tests.support.skips import NEEDS_POSTGRESQL

MANY = 1_500


def create_keys(count: int) -> list[ApiKey]:
    names = [f"{index:08}" for index in range(count)]
    accounts = Account.objects.bulk_create(
        Account(name=name, public_id=name, plan_id=PlanCode.FREE) for name in names
    )
    values: dict[str, Any] = {"mode": "live", "pepper_number": 1, "scopes": "pets:read"}
    return ApiKey.objects.bulk_create(
        ApiKey(account=account, public_id=f"{account.name}abcdef", **values) for account in accounts
    )


def build_batch(keys: list[ApiKey], now: int = NOON) -> Batch:
    """Build a batch with two requests per key. One is admitted and deprecated; the other is rejected."""
    calls = [(key.account_id, "getPet", now // DAY) for key in keys]
    return Batch(
        requests=Counter((key.pk, now // DAY) for key in keys),
        rejections=Counter((key.pk, now // DAY) for key in keys),
        last_used={key.pk: now for key in keys},
        minutes=Counter((key.account_id, now // MINUTE) for key in keys),
        deprecated_calls=Counter(calls),
        last_deprecated_calls=dict.fromkeys(calls, now),
    )


def test_thousands_of_keys_take_a_few_statements_of_a_bounded_size(db: None, monkeypatch: Any) -> None:
    keys = create_keys(MANY)
    for batch_size, count in ((batch.BATCH_SIZE, 4), (MANY // 2, 4 * 2)):
        monkeypatch.setattr(batch, "BATCH_SIZE", batch_size)
        with recorded_statements() as statements:
            build_batch(keys, NOON + count * MINUTE).write(NOON)
        assert len(statements) == count
    assert DailyUsage.objects.filter(admitted=2, rejected=2).count() == MANY
    assert MinuteCount.objects.filter(requests=1).count() == 2 * MANY
    assert ApiKey.objects.filter(last_used_at=to_datetime(NOON + 8 * MINUTE)).count() == MANY


def test_writes_add_up(db: None) -> None:
    keys = create_keys(3)
    build_batch(keys).write(NOON)
    build_batch(keys[1:]).write(NOON)
    rows = DailyUsage.objects.order_by("key_id").values_list("admitted", "rejected")
    assert list(rows) == [(1, 1), (2, 2), (2, 2)]
    assert list(MinuteCount.objects.order_by("account_id").values_list("requests", flat=True)) == [1, 2, 2]
    assert [use.admitted for key in keys for use in key.account.deprecated_calls.all()] == [1, 2, 2]


def test_usage_of_deleted_keys_and_accounts_is_dropped(db: None) -> None:
    without_key, without_account, stays = create_keys(3)
    batch = build_batch([without_key, without_account, stays])
    ApiKey.objects.filter(pk__in=[without_key.pk, without_account.pk]).delete()
    Account.objects.filter(pk=without_account.account_id).delete()
    batch.write(NOON)
    assert DailyUsage.objects.get().key == stays
    remaining = {without_key.account_id, stays.account_id}
    assert {load.account_id for load in MinuteCount.objects.all()} == remaining
    assert {use.account_id for use in DeprecatedUse.objects.all()} == remaining


def test_last_uses_of_many_keys_are_each_written_at_most_once_a_minute(db: None) -> None:
    new, just_now, earlier = create_keys(3)
    for key, seconds in ((just_now, 59), (earlier, 60)):
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=to_datetime(NOON) - timedelta(seconds=seconds))
    build_batch([new, just_now, earlier]).write(NOON)
    assert list(ApiKey.objects.order_by("pk").values_list("last_used_at", flat=True)) == [
        to_datetime(NOON),
        to_datetime(NOON) - timedelta(seconds=59),
        to_datetime(NOON),
    ]


@COMMITTED
@NEEDS_POSTGRESQL
def test_concurrent_writes_of_the_same_keys_do_not_deadlock() -> None:
    keys = create_keys(500)
    write = transaction.atomic(lambda batch: batch.write(NOON))
    for number in range(3):
        now = NOON + number * MINUTE
        run_concurrently(
            partial(write, build_batch(keys, now)), partial(write, build_batch(keys[::-1], now))
        )
    assert set(DailyUsage.objects.values_list("admitted", flat=True)) == {2 * 3}


@COMMITTED
@NEEDS_POSTGRESQL
def test_rehashing_holds_one_row_lock_at_a_time() -> None:
    first, second = create_keys(2)
    one_at_a_time = ApiKey.objects.select_for_update(nowait=True)
    digests = {key.pk: (key.pepper_number + 1, "0" * 64) for key in (first, second)}
    with other_connection() as begin, transaction.atomic():
        one_at_a_time.get(pk=second.pk)
        begin(lambda: write_digests(digests))
        one_at_a_time.get(pk=first.pk)
    numbers = ApiKey.objects.order_by("pk").values_list("pepper_number", flat=True)
    assert list(numbers) == [first.pepper_number + 1] * 2


def get_usage(hours: int = OperationUsage.DAY) -> dict[tuple[str, int], int]:
    rows = OperationUsage.objects.filter(hours=hours)
    return {(row.operation, row.status): row.requests for row in rows}


def test_requests_are_counted_by_operation_and_status(
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
