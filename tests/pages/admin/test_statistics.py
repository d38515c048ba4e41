"""Statistics of the back office, their queries, and the what-if simulation."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from accounts.models import (
    EPOCH,
    Account,
    ApiKey,
    DailyUsage,
    MinuteHistogram,
    PlanCode,
    QuotaUsage,
    RateLimitState,
)
from accounts.quota.limits import Limits, to_microseconds
from accounts.usage import reports
from accounts.usage.reports import Rejections, Simulation, simulate_limits
from tests.conftest import OPERATOR

TODAY = date(2026, 11, 21)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def days_before_today(days: int) -> date:
    return TODAY - timedelta(days=days)


def add_usage(key: ApiKey, days_ago: int, requests: int, rejections: int = 0) -> None:
    DailyUsage.objects.create(
        key=key, day=days_before_today(days_ago), admitted=requests, rejected=rejections
    )


@pytest.fixture
def free(db: None) -> Account:
    return Account.objects.create(name="Small Paws", plan_id=PlanCode.FREE)


@pytest.fixture
def custom(db: None) -> Account:
    account = Account(name="Big Cats")
    account.assign(PlanCode.ENTERPRISE, 5_000, 50_000)
    return account


def test_requests_are_summed_by_day_and_plan_with_zeros(key: ApiKey, issue: Any, free: Account) -> None:
    second, small = issue()[0], issue(free)[0]
    add_usage(key, 0, 10, 1)
    add_usage(second, 0, 5)
    add_usage(small, 2, 7, 7)
    add_usage(small, 3, 99)  # Too old.
    idle = [(days_before_today(2), 0, 0), (days_before_today(1), 0, 0), (days_before_today(0), 0, 0)]
    assert reports.get_daily_usage_by_plan(days=3, today=TODAY) == {
        PlanCode.FREE: [(days_before_today(2), 7, 7), *idle[1:]],
        PlanCode.PRO: idle,
        PlanCode.BUSINESS: [*idle[:2], (days_before_today(0), 15, 1)],
        PlanCode.ENTERPRISE: idle,
    }


def test_usage_of_an_account_includes_exactly_its_own_keys(key: ApiKey, issue: Any, free: Account) -> None:
    add_usage(key, 1, 10, 1)
    add_usage(issue()[0], 1, 5)
    add_usage(issue(free)[0], 1, 1_000)
    usage = reports.get_daily_usage(days=2, today=TODAY, key__account=key.account_id)
    assert usage == [(days_before_today(1), 15, 1), (days_before_today(0), 0, 0)]


def test_top_accounts_are_ordered_by_share_of_their_daily_limit(
    account: Account, free: Account, custom: Account
) -> None:
    idle = Account.objects.create(name="Idle", plan_id=PlanCode.PRO)
    today = (TODAY - EPOCH).days
    for owner, day, used in (
        (account, today, 1_000), (free, today, 900), (custom, today, 45_000), (idle, today - 1, 9),
    ):  # fmt: skip
        QuotaUsage.objects.create(account=owner, day=day, day_used=used)
    assert [(used.account, used.day_used) for used in reports.find_top_accounts(today=TODAY)] == [
        (custom, 45_000),  # Of 50,000.
        (free, 900),  # Of 1,000: the same share, ordered by name.
        (account, 1_000),  # Of 100,000.
    ]
    assert len(reports.find_top_accounts(limit=1, today=TODAY)) == 1


def test_callers_of_deprecated_operations_have_count_and_last_call(account: Account, free: Account) -> None:
    def call(caller: Account, days_ago: int, requests: int, operation: str = "getPet") -> None:
        last = NOW - timedelta(days_ago)
        caller.deprecated_calls.create(
            operation=operation, day=days_before_today(days_ago), admitted=requests, last_call_at=last
        )

    call(account, 29, 2)
    call(account, 1, 3)
    call(account, 30, 1_000)  # Too old.
    call(free, 0, 9)
    call(free, 0, 9, operation="somethingElse")
    callers: list[Any] = reports.find_deprecated_callers(today=TODAY)
    found = [(caller, caller.calls, caller.last_call_at) for caller in callers]
    assert found == [(free, 9, NOW), (account, 5, NOW - timedelta(1))]


def test_banned_keys_are_those_with_a_current_ban(key: ApiKey, issue: Any) -> None:
    assert reports.find_banned_keys(now=NOW) == (0, [])
    now = to_microseconds(NOW)
    others = [issue()[0] for _ in range(3)]
    ends = [now + 1, now, now + 60_000_000, now + 10]
    for banned, end in zip([key, *others], ends, strict=True):
        state = {"banned_at": now - 5_000_000, "banned_until": end}
        RateLimitState.objects.update_or_create(key=banned, defaults=state)
    others[2].revoke(reason="Leaked.", by=OPERATOR)
    assert reports.find_banned_keys(now=NOW) == (2, [key, others[1]])
    assert reports.find_banned_keys(limit=1, now=NOW) == (2, [key])


def test_expiring_keys_are_counted_and_replaced_ones_marked(issue: Any) -> None:
    def ending(days: float) -> ApiKey:
        key: ApiKey = issue()[0]
        end = NOW + timedelta(days)
        ApiKey.objects.filter(pk=key.pk).update(created_at=NOW - timedelta(9), expires_at=end)
        return key

    _, soon, week, month, late, revoked = map(ending, (0, 1, 7, 30, 30.1, 2))
    issue()  # Never expires.
    revoked.revoke(reason="Leaked.", by=OPERATOR)
    ApiKey.objects.filter(pk=late.pk).update(rotated_from=soon)
    expiring = reports.find_expiring_keys(now=NOW)
    assert (expiring.in_7_days, expiring.in_30_days, expiring.to_replace_in_7_days) == (2, 3, 1)
    rows = [(row.pk, getattr(row, "replaced", None)) for row in expiring.keys]
    assert rows == [(week.pk, False), (month.pk, False), (soon.pk, True)]
    assert [row.pk for row in reports.find_expiring_keys(limit=1, now=NOW).keys] == [week.pk]


def add_load(account: Account, days_ago: int, minutes: dict[int, int]) -> None:
    stored = {str(sent): times for sent, times in minutes.items()}
    MinuteHistogram.objects.create(account=account, day=days_before_today(days_ago), minutes=stored)


def test_what_if_counts_rejections_under_other_limits(account: Account, free: Account) -> None:
    nothing = (30, 0, 0, Rejections(), Rejections())
    assert simulate_limits(account.plan, Limits(1, 1), today=TODAY) == nothing
    add_load(account, 0, {10: 3, 100: 2, 1: 50})  # 280 requests: 30 + 200 + 50.
    add_load(account, 1, {20: 1})
    add_load(account, 30, {1_000: 1})  # Too old.
    add_load(free, 0, {1_000: 9})  # On another plan.
    # 40 of each of the two busy minutes, then 50 of the remaining 200 of that day.
    rejections = Rejections(by_minute=80, by_day=50, account_ids={account.pk})
    simulated = Simulation(days=30, accounts=1, requests=300, current=Rejections(), other=rejections)
    assert simulate_limits(account.plan, Limits(60, 150), today=TODAY) == simulated
    assert simulate_limits(account, Limits(60, 150), today=TODAY).other.total == 130


def test_what_if_with_current_limits_matches_actual_rejections(free: Account, custom: Account) -> None:
    add_load(free, 0, {100: 1, 61: 2})
    add_load(custom, 0, {5_001: 1, 5_000: 3})
    assert simulate_limits(free.plan, Limits(60, 1_000), today=TODAY).other.total == 42
    current = Rejections(by_minute=42, account_ids={free.pk})
    assert simulate_limits(free.plan, Limits(100, 1_000), today=TODAY)[3:] == (current, Rejections())
    assert simulate_limits(custom, Limits(9_000, 90_000), today=TODAY).current.total == 1
