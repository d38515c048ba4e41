"""Events that warn: each once for its window, whoever sees the reason, and how often (D41)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db import connection
from django.utils import timezone

from accounts.bans import Ban
from accounts.events.warnings import sweep, warn_of_use
from accounts.limits import DAY, MINUTE
from accounts.models import (
    Account,
    ApiKey,
    EventDraft,
    EventType,
    Feed,
    KeyStanding,
    PlanCode,
    QuotaCounter,
)
from accounts.usage import write_behind
from accounts.usage.batch import write_bans
from tests.conftest import COMMITTED, OPERATOR, Api

pytestmark = pytest.mark.django_db


def told(kind: EventType) -> list[Any]:
    return [orjson.loads(row.data) for row in EventDraft.objects.filter(type=kind).order_by("pk")]


def sweep_again() -> None:
    Feed.objects.update(swept_at=0)
    assert sweep()


def test_account_is_told_once_that_80_and_100_per_cent_of_its_day_are_used(
    api: Api, account: Account
) -> None:
    account.assign(PlanCode.ENTERPRISE, 100, 10)
    for _ in range(12):
        api.get("/pets?limit=1")
        write_behind.recorder.write()
    sweep_again()
    common = {"window": "day", "limit": 10}
    assert told(EventType.QUOTA_REACHED) == [
        common | {"used": 8, "threshold": 80},
        common | {"used": 10, "threshold": 100},
    ]


def test_sweep_tells_what_a_process_that_died_did_not(account: Account) -> None:
    account.assign(PlanCode.ENTERPRISE, 100, 10)
    today = round(timezone.now().timestamp()) * 1_000_000 // DAY
    unused = {"minute_ends": 0, "minute_used": 0, "seen_at": 0, "admitted": True}
    QuotaCounter.objects.create(account=account, day=today, day_used=9, **unused)
    for _ in range(2):
        sweep_again()
    assert told(EventType.QUOTA_REACHED) == [{"window": "day", "limit": 10, "used": 9, "threshold": 80}]


def test_key_that_ends_is_told_of_7_days_and_1_day_before(
    issue: Callable[..., tuple[ApiKey, str]],
) -> None:
    now = timezone.now()
    issue(name="Later", expires_at=now + timedelta(days=8))
    issue(name="Soon", expires_at=now + timedelta(days=6))
    for _ in range(2):
        sweep_again()
    assert [data["key"]["name"] for data in told(EventType.KEY_EXPIRING)] == ["Soon"]
    for _ in range(2):
        Feed.objects.update(swept_at=0)
        sweep(now + timedelta(days=5, hours=1))
    names = [data["key"]["name"] for data in told(EventType.KEY_EXPIRING)]
    assert sorted(names) == ["Later", "Soon", "Soon"]


def test_key_that_is_revoked_is_not_told_of(issue: Callable[..., tuple[ApiKey, str]]) -> None:
    key, _ = issue(expires_at=timezone.now() + timedelta(hours=3))
    key.revoke(reason="Lost.", by=OPERATOR)
    sweep_again()
    assert told(EventType.KEY_EXPIRING) == []


def test_ban_is_told_of_once(key: ApiKey) -> None:
    began = round(timezone.now().timestamp()) * 1_000_000
    for _ in range(2):
        write_behind.recorder.ban(Ban(key.pk, began, began + 5 * MINUTE, 1, 10))
    sweep_again()
    assert [data["key"]["id"] for data in told(EventType.KEY_BANNED)] == [key.public_id]


def test_one_process_in_a_minute_sweeps(db: None) -> None:
    sweep_again()
    assert not sweep()
    assert sweep(timezone.now() + timedelta(minutes=1))


@COMMITTED
def test_16_that_see_a_threshold_at_once_write_one_event() -> None:
    reached = {(7, 20_000, threshold): (10, 10) for threshold in (80, 100)}

    def write(_: int) -> None:
        try:
            warn_of_use(reached)
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(16)))
    assert [data["threshold"] for data in told(EventType.QUOTA_REACHED)] == [80, 100]


def test_ban_that_is_lifted_before_it_is_written_is_told_all_the_same(key: ApiKey) -> None:
    began = round(timezone.now().timestamp() * 1_000_000)
    ban = Ban(key.pk, began, began + 5 * MINUTE, 1, 10)
    KeyStanding.objects.create(key=key, banned_at=began, banned_until=ban.ends_at, ban_level=1)
    key.unban(reason="A mistake.", by=OPERATOR)
    write_bans([ban])
    sweep_again()
    kinds = EventDraft.objects.filter(type__startswith="key.").order_by("pk").values_list("type", flat=True)
    assert list(kinds)[-2:] == [EventType.KEY_BANNED, EventType.KEY_UNBANNED]
    assert len(told(EventType.KEY_BANNED)) == 1
