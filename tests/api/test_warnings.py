"""Warning events: each is sent once per window by all processes together (D41)."""

from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from django.db import OperationalError
from django.utils import timezone

from accounts.events.warnings import send_missed_warnings, send_quota_warnings
from accounts.models import Account, EventType, Feed, OutboxEvent, PlanCode
from accounts.quota import store
from accounts.quota.limits import to_microseconds
from accounts.usage import write_behind
from tests.conftest import COMMITTED, OPERATOR, Api, Issue
from tests.support.concurrency import run_concurrently
from tests.support.customers import use_quota
from tests.support.quota import Sender

pytestmark = pytest.mark.django_db


def event_data(kind: EventType) -> list[Any]:
    return [orjson.loads(row.data) for row in OutboxEvent.objects.filter(type=kind).order_by("pk")]


def force_check(*now: datetime) -> None:
    Feed.objects.update(warnings_checked_at=0)
    assert send_missed_warnings(*now)


def test_account_is_warned_once_at_80_and_100_per_cent_of_its_day(api: Api, account: Account) -> None:
    account.assign(PlanCode.ENTERPRISE, 100, 10)
    for _ in range(12):
        api.get("/pets?limit=1")
        write_behind.recorder.write()
    force_check()
    common = {"window": "day", "limit": 10}
    assert event_data(EventType.QUOTA_REACHED) == [
        common | {"used": 8, "threshold": 80},
        common | {"used": 10, "threshold": 100},
    ]


def test_threshold_reached_by_lowering_the_limit_is_warned_of(account: Account) -> None:
    use_quota(account, 8)
    account.assign(PlanCode.ENTERPRISE, 100, 10)
    for _ in range(2):
        force_check()
    [data] = event_data(EventType.QUOTA_REACHED)
    assert data == {"window": "day", "limit": 10, "used": 8, "threshold": 80}


def test_expiry_warnings_are_sent_7_days_and_1_day_before_unless_it_is_revoked(issue: Issue) -> None:
    def get_names() -> list[str]:
        return sorted(data["key"]["name"] for data in event_data(EventType.KEY_EXPIRING))

    now = timezone.now()
    for name, days in (("Later", 8), ("Soon", 6), ("Today", 0.5), ("Revoked", 6)):
        key, _ = issue(name=name, expires_at=now + timedelta(days=days))
    key.revoke(reason="Lost.", by=OPERATOR)
    for _ in range(2):
        force_check()
    assert get_names() == ["Soon", "Today"]
    for _ in range(2):
        force_check(now + timedelta(days=5, hours=1))
    assert get_names() == ["Later", "Soon", "Soon", "Today"]


@pytest.mark.parametrize(("per_day", "used"), [(10, {80: 8, 100: 10}), (1, {80: 1, 100: 1})])
def test_request_at_a_threshold_is_counted_after_its_warning(per_day: int, used: dict[int, int]) -> None:
    sender = Sender(per_minute=100, per_day=per_day)
    for count in range(1, per_day + 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "store_quota_warnings", Mock(side_effect=OperationalError))
            if count in used.values():
                with pytest.raises(OperationalError):
                    sender.send()
        assert sender.send().windows[1].used == count
    assert {data["threshold"]: data["used"] for data in event_data(EventType.QUOTA_REACHED)} == used


def test_next_day_has_warnings_of_its_own() -> None:
    sender = Sender(per_minute=100, per_day=1)
    for _ in range(2):
        assert sender.admitted(2) == 1
        sender.wait(86_400)
    assert [data["threshold"] for data in event_data(EventType.QUOTA_REACHED)] == [80, 100] * 2


def test_limit_beyond_the_largest_blocks_no_warnings(account: Account) -> None:
    limits = {"per_minute": 2**63 - 1, "per_day": 2**63 - 1}
    huge = Account.objects.create(name="Huge", plan_id=PlanCode.ENTERPRISE, **limits)
    use_quota(huge, 1_000)
    use_quota(account, account.limits.per_day)
    force_check()
    warned = OutboxEvent.objects.filter(type=EventType.QUOTA_REACHED).values_list("account_id", flat=True)
    assert set(warned) == {account.pk}


def test_check_by_a_clock_that_was_ahead_does_not_block_later_checks() -> None:
    now = timezone.now()
    Feed.objects.update(warnings_checked_at=to_microseconds(now + timedelta(days=365)))
    assert send_missed_warnings(now)
    assert not send_missed_warnings(now)  # One check per minute.
    assert send_missed_warnings(now + timedelta(minutes=1))


@COMMITTED
def test_16_concurrent_requests_at_a_threshold_write_one_event() -> None:
    reached = {(7, 20_000, threshold): (10, 10) for threshold in (80, 100)}

    run_concurrently(*[lambda: send_quota_warnings(reached)] * 16)
    assert [data["threshold"] for data in event_data(EventType.QUOTA_REACHED)] == [80, 100]
