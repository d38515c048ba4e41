"""Warning events: each is sent once per window by all processes together (D41)."""

from contextlib import suppress
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from django.db import OperationalError
from django.utils import timezone

from accounts.events.warnings import send_missed_warnings, send_quota_warnings
from accounts.models import Account, ApiKey, EventDraft, EventType, Feed, KeyStanding, PlanCode
from accounts.quota.bans import Ban
from accounts.quota.limits import MINUTE, to_microseconds
from accounts.usage import write_behind
from accounts.usage.batch import write_bans
from tests.conftest import COMMITTED, OPERATOR, Api, Issue
from tests.support.concurrency import run_concurrently
from tests.support.customers import use_quota
from tests.support.quota import Sender

pytestmark = pytest.mark.django_db


def event_data(kind: EventType) -> list[Any]:
    return [orjson.loads(row.data) for row in EventDraft.objects.filter(type=kind).order_by("pk")]


def force_check() -> None:
    Feed.objects.update(warnings_checked_at=0)
    assert send_missed_warnings()


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


def test_missed_warnings_are_sent_after_a_crash(account: Account) -> None:
    account.assign(PlanCode.ENTERPRISE, 100, 10)
    use_quota(account, 9)
    for _ in range(2):
        force_check()
    assert event_data(EventType.QUOTA_REACHED) == [
        {"window": "day", "limit": 10, "used": 9, "threshold": 80}
    ]


def test_expiry_warnings_are_sent_7_days_and_1_day_before(
    issue: Issue,
) -> None:
    now = timezone.now()
    issue(name="Later", expires_at=now + timedelta(days=8))
    issue(name="Soon", expires_at=now + timedelta(days=6))
    for _ in range(2):
        force_check()
    assert [data["key"]["name"] for data in event_data(EventType.KEY_EXPIRING)] == ["Soon"]
    for _ in range(2):
        Feed.objects.update(warnings_checked_at=0)
        send_missed_warnings(now + timedelta(days=5, hours=1))
    names = [data["key"]["name"] for data in event_data(EventType.KEY_EXPIRING)]
    assert sorted(names) == ["Later", "Soon", "Soon"]


def test_revoked_key_gets_no_expiry_warning(issue: Issue) -> None:
    key, _ = issue(expires_at=timezone.now() + timedelta(hours=3))
    key.revoke(reason="Lost.", by=OPERATOR)
    force_check()
    assert event_data(EventType.KEY_EXPIRING) == []


class ProcessCrashedError(BaseException):
    pass


@pytest.fixture
def crashing_store(db: None, monkeypatch: pytest.MonkeyPatch) -> QuotaStore:
    """A store whose process crashes after counting a request or imposing a ban."""

    def crash(*_: Any, **__: Any) -> None:
        raise ProcessCrashedError

    monkeypatch.setattr("accounts.quota.redis_store.finish_admit", crash)
    monkeypatch.setattr("accounts.quota.database_store.Ban", crash)
    monkeypatch.setattr(write_behind.recorder, "count", crash)
    return store


def send(sender: Sender, requests: int) -> None:
    for _ in range(requests):
        with suppress(ProcessCrashedError):
            sender.send()


def test_threshold_warning_survives_a_crash(db: None) -> None:
    sender = Sender(per_minute=100, per_day=10)
    send(sender, 10)
    sender.wait(86_400)
    send(sender, 1)  # The counters no longer show the usage of the day before.
    force_check()
    common = {"window": "day", "limit": 10}
    assert event_data(EventType.QUOTA_REACHED) == [
        common | {"used": 8, "threshold": 80},
        common | {"used": 10, "threshold": 100},
    ]


def test_warning_of_the_only_daily_request_survives_a_crash(db: None) -> None:
    send(Sender(per_minute=100, per_day=1), 1)
    assert [data["threshold"] for data in event_data(EventType.QUOTA_REACHED)] == [80, 100]


def test_ban_event_survives_a_crash(db: None) -> None:
    sender = Sender(per_minute=1, per_day=100, now=to_microseconds(timezone.now()))
    for _ in range(24):
        send(sender, 2)
        sender.wait(1)
    Feed.objects.update(warnings_checked_at=0)
    assert send_missed_warnings(timezone.now() + timedelta(hours=1))
    assert [data["key"]["id"] for data in event_data(EventType.KEY_BANNED)] == [sender.keys[0].public_id]


def test_thresholds_reached_by_lowering_the_limit_are_warned_of(db: None) -> None:
    sender = Sender(per_minute=100, per_day=100)
    sender.admitted(20)
    sender.account.assign(PlanCode.ENTERPRISE, 100, 10)
    sender.send()
    write_behind.recorder.write()
    assert [data["threshold"] for data in event_data(EventType.QUOTA_REACHED)] == [80, 100]


def test_limit_beyond_the_largest_blocks_no_warnings(account: Account) -> None:
    huge = Account.objects.create(
        name="Huge", plan_id=PlanCode.ENTERPRISE, per_minute=2**63 - 1, per_day=2**63 - 1
    )
    use_quota(huge, 1_000)
    use_quota(account, account.limits.per_day)
    force_check()
    assert {row.account_id for row in EventDraft.objects.filter(type=EventType.QUOTA_REACHED)} == {
        account.pk
    }


def test_check_by_a_clock_that_was_ahead_does_not_block_later_checks() -> None:
    now = timezone.now()
    Feed.objects.update(warnings_checked_at=to_microseconds(now + timedelta(days=365)))
    assert send_missed_warnings(now)
    assert not send_missed_warnings(now)  # One check per minute.
    assert send_missed_warnings(now + timedelta(minutes=1))


def test_request_counts_although_its_warning_cannot_be_written(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Sender(per_minute=100, per_day=10)
    sender.admitted(7)
    with monkeypatch.context() as patched:
        patched.setattr(
            write_behind, "send_quota_warnings", Mock(side_effect=OperationalError("unavailable"))
        )
        assert sender.send().admitted
    assert event_data(EventType.QUOTA_REACHED) == []
    write_behind.recorder.write()
    assert [data["used"] for data in event_data(EventType.QUOTA_REACHED)] == [8]


def test_ban_has_one_event(key: ApiKey) -> None:
    started_at = round(timezone.now().timestamp()) * 1_000_000
    for _ in range(2):
        write_behind.recorder.record_ban(Ban(key.pk, started_at, started_at + 5 * MINUTE, 1, 10))
    force_check()
    assert [data["key"]["id"] for data in event_data(EventType.KEY_BANNED)] == [key.public_id]


@COMMITTED
def test_16_concurrent_requests_at_a_threshold_write_one_event() -> None:
    reached = {(7, 20_000, threshold): (10, 10) for threshold in (80, 100)}

    run_concurrently(*[lambda: send_quota_warnings(reached)] * 16)
    assert [data["threshold"] for data in event_data(EventType.QUOTA_REACHED)] == [80, 100]


def test_ban_lifted_before_it_was_written_has_an_event(key: ApiKey) -> None:
    started_at = round(timezone.now().timestamp() * 1_000_000)
    ban = Ban(key.pk, started_at, started_at + 5 * MINUTE, 1, 10)
    KeyStanding.objects.create(key=key, banned_at=started_at, banned_until=ban.ends_at, ban_level=1)
    key.unban(reason="A mistake.", by=OPERATOR)
    write_bans([ban])
    force_check()
    kinds = EventDraft.objects.filter(type__startswith="key.").order_by("pk").values_list("type", flat=True)
    assert list(kinds)[-2:] == [EventType.KEY_BANNED, EventType.KEY_UNBANNED]
    assert len(event_data(EventType.KEY_BANNED)) == 1


def test_ban_is_stored_with_the_next_write_if_no_thread_is_free(
    key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_at = round(timezone.now().timestamp() * 1_000_000)
    with monkeypatch.context() as patched:
        patched.setattr(write_behind, "run_in_thread", Mock(side_effect=OperationalError("busy")))
        write_behind.recorder.record_ban(Ban(key.pk, started_at, started_at + 5 * MINUTE, 1, 10))
    write_behind.recorder.write()
    assert KeyStanding.objects.get().key == key
