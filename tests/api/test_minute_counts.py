"""Requests per minute, and calls of deprecated operations."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import DatabaseError
from django.db.models import Model
from django.utils import timezone

from accounts.models import EPOCH, Account, ApiKey, DeprecatedUse, MinuteCount, MinuteHistogram
from accounts.quota.limits import DAY, MINUTE, SECOND, Limits, RateLimitDecision, build_windows
from accounts.usage import batch, minute_counts, retention, write_behind
from accounts.usage.batch import Batch, add_counts
from accounts.usage.write_behind import UsageRecorder
from petstore.api.context import Caller
from petstore.audit.models import FailedSignIn
from tests.conftest import COMMITTED, Api
from tests.support.concurrency import run_concurrently
from tests.support.quota import NOON

TODAY = EPOCH + timedelta(days=NOON // DAY)
LATER = NOON + 20 * MINUTE


def decision(now: int, *, admitted: bool = True, banned: bool = False) -> RateLimitDecision:
    windows = build_windows(now, Limits(5, 50), now + 1, 1, now // DAY, 1)
    return RateLimitDecision(admitted, windows, now, now + 1 if banned else 0)


def build_caller(key: ApiKey) -> Caller:
    return Caller(key.account_id, key.pk, key.public_id, frozenset())


fail = Mock(side_effect=DatabaseError("unavailable"))


def add_counts_unless(failing: type[Model], model: type[Model], *rows: Any, **fields: Any) -> None:
    if model is failing:
        fail()
    add_counts(model, *rows, **fields)


def write_loads(minutes: dict[int, int], account: Account, written_at: int = NOON) -> None:
    """Write loads: {minutes after NOON: requests}."""
    counts = {(account.pk, NOON // MINUTE + minute): requests for minute, requests in minutes.items()}
    Batch(minutes=Counter(counts)).write(written_at)


def test_finished_quarter_becomes_a_histogram_of_its_day(account: Account) -> None:
    write_loads({0: 3, 1: 3, 2: 10, 14: 1, 15: 8}, account)
    assert minute_counts.roll_up(LATER) == 4
    assert MinuteHistogram.objects.get(account=account, day=TODAY).minutes == {"3": 2, "10": 1, "1": 1}
    assert MinuteCount.objects.get().requests == 8  # Its quarter is not over.
    write_loads({15: 2, 20: 3}, account)
    minute_counts.roll_up(LATER + 15 * MINUTE)
    assert MinuteHistogram.objects.get().minutes == {"3": 3, "10": 2, "1": 1}
    assert not MinuteCount.objects.exists()


def test_minute_is_rolled_up_two_minutes_after_its_last_write(account: Account) -> None:
    write_loads({0: 3}, account)
    write_loads({0: 4}, account, LATER)  # Another process could not write until now.
    assert minute_counts.roll_up(LATER + 2 * MINUTE - 1) == 0
    assert minute_counts.roll_up(LATER + 2 * MINUTE) == 1
    assert MinuteHistogram.objects.get().minutes == {"7": 1}


def test_minutes_belong_to_their_own_day_and_account(account: Account) -> None:
    other = Account.objects.create(name="Other", plan_id="free")
    write_loads({0: 1, -24 * 60: 2}, account)
    write_loads({0: 5}, other)
    minute_counts.roll_up(LATER)
    loads = MinuteHistogram.objects.order_by("account", "day").values_list("account", "day", "minutes")
    yesterday = (account.pk, TODAY - timedelta(days=1), {"2": 1})
    assert list(loads) == [yesterday, (account.pk, TODAY, {"1": 1}), (other.pk, TODAY, {"5": 1})]


@COMMITTED
def test_concurrent_roll_ups_count_each_minute_once() -> None:
    accounts = [Account.objects.create(name=f"A{number}", plan_id="free") for number in range(5)]
    for account in accounts:
        write_loads(dict.fromkeys(range(-60, 0), 2), account)
    moved = run_concurrently(*[lambda: minute_counts.roll_up(LATER)] * 6)
    minute_counts.roll_up(LATER)  # For rows that were locked before.
    assert sum(moved) <= 300
    assert [load.minutes for load in MinuteHistogram.objects.all()] == [{"2": 60}] * 5
    assert not MinuteCount.objects.exists()


def test_minute_counts_include_rejections_but_no_bans(key: ApiKey, usage_recorder: UsageRecorder) -> None:
    rejected, banned = decision(NOON, admitted=False), decision(NOON, admitted=False, banned=True)
    for each in (decision(NOON), rejected, banned):
        usage_recorder.count(build_caller(key), each)
    usage_recorder.write()
    assert MinuteCount.objects.get().requests == 2


def test_minute_counts_and_deprecated_calls_survive_a_failed_write(
    key: ApiKey, usage_recorder: UsageRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = build_caller(key)

    def use(now: int) -> None:
        usage_recorder.count(caller, decision(now))
        usage_recorder.record_deprecated_call(caller, "getPet", now)

    use(NOON)
    with monkeypatch.context() as patched:
        patched.setattr(batch, "add_counts", partial(add_counts_unless, DeprecatedUse))
        usage_recorder.write()
    assert not MinuteCount.objects.exists()  # In one transaction, so nothing is counted twice.
    use(NOON + SECOND)
    usage_recorder.write()
    assert MinuteCount.objects.get().requests == 2
    used = DeprecatedUse.objects.get()
    assert (used.admitted, used.last_call_at) == (2, datetime.fromtimestamp(NOON // SECOND + 1, UTC))


def test_unwritten_counts_are_bounded(key: ApiKey, usage_recorder: UsageRecorder, monkeypatch: Any) -> None:
    monkeypatch.setattr(batch, "MAX_MINUTES", 3)
    with monkeypatch.context() as patched:
        patched.setattr(batch, "add_counts", partial(add_counts_unless, DeprecatedUse))
        for minute in range(6):
            usage_recorder.count(build_caller(key), decision(NOON + minute * MINUTE))
            usage_recorder.write()
    usage_recorder.write()
    minutes = MinuteCount.objects.order_by("minute").values_list("minute", flat=True)
    assert [minute - NOON // MINUTE for minute in minutes] == [3, 4, 5]
    assert key.usage.get().admitted == 6  # Usage itself is not bounded.


def test_days_are_kept_for_a_quarter_of_a_year_and_deprecated_calls_for_400_days(account: Account) -> None:
    for days in (0, 92, 93, 400, 401):
        day, now = TODAY - timedelta(days=days), datetime.now(UTC)
        MinuteHistogram.objects.create(account=account, day=day)
        account.deprecated_calls.create(operation="getPet", day=day, admitted=1, last_call_at=now)
    retention.prune(NOON)
    assert {(TODAY - load.day).days for load in MinuteHistogram.objects.all()} == {0, 92}
    assert {(TODAY - use.day).days for use in DeprecatedUse.objects.all()} == {0, 92, 93, 400}


def test_each_admitted_call_of_the_deprecated_operation_is_counted(
    api: Api, account: Account, usage_recorder: UsageRecorder
) -> None:
    account.assign("enterprise", 3, 100)  # type: ignore[arg-type]
    codes = [api("GET", "/pets/1").status_code, api("HEAD", "/pets/nothing").status_code]
    codes += [api.get("/pets").status_code, api.get("/pets/1").status_code]
    usage_recorder.write()
    assert codes == [404, 404, 200, 429]
    used = DeprecatedUse.objects.get()
    assert (used.account, used.operation, used.admitted) == (account, "getPet", 2)
    assert used.day == used.last_call_at.date()


def test_deprecated_calls_of_processes_add_up_and_keep_the_latest_time(account: Account) -> None:
    day = NOON // DAY
    for requests, at in ((2, NOON + 9), (5, NOON + 3)):
        call = (account.pk, "getPet", day)
        Batch(deprecated_calls=Counter({call: requests}), last_deprecated_calls={call: at}).write(NOON)
    used = DeprecatedUse.objects.get()
    assert (used.admitted, used.last_call_at.microsecond) == (7, 9)


def test_clean_up_survives_a_database_error(account: Account, monkeypatch: Any, caplog: Any) -> None:
    write_loads({0: 3}, account)
    MinuteHistogram.objects.create(account=account, day=TODAY - timedelta(days=93))
    write_behind.clean_up(LATER)
    assert MinuteHistogram.objects.get().day == TODAY
    monkeypatch.setattr(minute_counts, "roll_up", fail)
    FailedSignIn.objects.create(at=timezone.now() - timedelta(days=1000), address="192.0.2.1")
    write_behind.clean_up(LATER)
    assert not FailedSignIn.objects.exists()  # The other cleanups run.
    assert "Cleanup of old records failed" in caplog.text
