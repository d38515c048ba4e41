"""The quota rules D21-D24, D27 and D28; those of bans are in test_bans.py."""

import pytest

from accounts.models import PlanCode
from accounts.models.plans import MAX_REQUEST_LIMIT
from accounts.quota.limits import DAY, MINUTE, SECOND, RateLimitDecision
from accounts.usage import write_behind
from petstore.api.errors import ErrorCode
from tests.support.quota import NOON, Sender, day, minute

pytestmark = pytest.mark.django_db


def make_sender(per_minute: int = 60, per_day: int = 1_000) -> Sender:
    return Sender(per_minute, per_day)


@pytest.mark.parametrize("limit", [1, 2, 20])
def test_limit_admits_exactly_as_many_per_minute_and_per_day(limit: int) -> None:
    assert make_sender(per_minute=limit).admitted(limit + 2) == limit
    assert make_sender(per_minute=1_000, per_day=limit).admitted(limit + 2) == limit


def test_minute_starts_with_the_first_request_after_the_last_one_ended() -> None:
    acme = make_sender()
    assert minute(acme.send()).ends_at == NOON + MINUTE
    acme.wait(59.999999)
    assert (minute(acme.send()).ends_at, minute(acme.send()).used) == (NOON + MINUTE, 3)
    acme.wait(100)
    decision = acme.send()
    assert (minute(decision).ends_at, minute(decision).used) == (acme.now + MINUTE, 1)


def test_day_is_the_utc_calendar_day() -> None:
    acme = make_sender(per_minute=10, per_day=3)
    midnight = NOON + DAY // 2
    assert acme.admitted(3) == 3
    acme.now = midnight - 1
    assert not acme.send().admitted
    assert day(acme.send()).ends_at == midnight
    acme.now = midnight
    assert acme.admitted(5) == 3


def test_all_keys_of_an_account_share_its_quota_and_other_accounts_have_their_own() -> None:
    acme, other = make_sender(per_minute=3), make_sender(per_minute=1)
    acme.add_key()
    assert [acme.send(key).admitted for key in (0, 1, 0, 1, 0)] == [True, True, True, False, False]
    assert other.admitted(2) == 1


def test_rejected_request_counts_in_neither_window() -> None:
    acme = make_sender(per_minute=2, per_day=10)
    acme.admitted(6)
    acme.wait(60)
    assert day(acme.send()).used == 3


def test_rejection_by_the_day_starts_no_minute() -> None:
    acme = make_sender(per_minute=5, per_day=1)
    acme.send()
    acme.now = NOON + DAY // 2 - 10 * SECOND
    assert not acme.send().admitted
    acme.wait(10)
    decision = acme.send()
    assert (minute(decision).used, minute(decision).ends_at) == (1, acme.now + MINUTE)


def test_largest_limits_are_counted_exactly() -> None:
    decision = make_sender(per_minute=MAX_REQUEST_LIMIT, per_day=MAX_REQUEST_LIMIT).send()
    assert minute(decision).remaining == day(decision).remaining == MAX_REQUEST_LIMIT - 1


def reported(decision: RateLimitDecision) -> tuple[str, int, int]:
    window = decision.reported_window
    return window.name, window.limit, window.remaining


def test_window_with_the_least_remaining_is_reported_and_the_longer_on_a_tie() -> None:
    assert reported(make_sender(per_minute=5, per_day=10).send()) == ("minute", 5, 4)
    assert reported(make_sender(per_minute=10, per_day=5).send()) == ("day", 5, 4)
    assert reported(make_sender(per_minute=5, per_day=5).send()) == ("day", 5, 4)


def test_rejecting_window_that_resets_last_is_reported() -> None:
    acme = make_sender(per_minute=2, per_day=2)
    acme.admitted(2)
    assert reported(acme.send()) == ("day", 2, 0)
    acme.now = NOON + DAY // 2 - 30 * SECOND  # The day ends before the new minute.
    busy = make_sender(per_minute=2, per_day=2)
    busy.now = acme.now
    busy.admitted(2)
    decision = busy.send()
    assert reported(decision) == ("minute", 2, 0)
    assert decision.error_code is ErrorCode.RATE_LIMIT_EXCEEDED


@pytest.mark.parametrize(("per_minute", "per_day"), [(1, 100), (100, 1), (1, 1)])
@pytest.mark.parametrize("fraction", [0, 1, 999_999])
def test_request_at_reset_or_after_a_wait_is_admitted(per_minute: int, per_day: int, fraction: int) -> None:
    for until_reset in (True, False):
        acme = make_sender(per_minute, per_day)
        acme.now += fraction
        acme.send()
        acme.wait(1.5)
        rejected = acme.send()
        assert not rejected.admitted
        after_wait = rejected.now + rejected.retry_after * SECOND
        acme.now = rejected.reported_window.reset * SECOND if until_reset else after_wait
        assert acme.send().admitted


def test_retry_after_is_at_least_a_second() -> None:
    acme = make_sender(per_minute=1)
    acme.send()
    acme.wait(59.999999)
    assert acme.send().retry_after == 1


def test_plan_change_takes_effect_at_once_and_keeps_the_usage() -> None:
    acme = make_sender(per_minute=5, per_day=100)
    acme.admitted(5)
    assert not acme.send().admitted
    acme.account.assign(PlanCode.PRO)
    assert (minute(acme.send()).limit, minute(acme.send()).used) == (300, 7)
    acme.account.assign(PlanCode.ENTERPRISE, 3, 6)  # Below the usage, which leaves nothing.
    decision = acme.send()
    assert (decision.admitted, minute(decision).remaining, day(decision).remaining) == (False, 0, 0)


def test_clock_set_back_keeps_the_usage_and_resets_within_a_minute() -> None:
    acme = make_sender(per_minute=3, per_day=100)
    acme.admitted(3)
    acme.wait(-3600)
    decision = acme.send()
    assert not decision.admitted
    assert decision.retry_after <= 60
    acme.wait(decision.retry_after)
    assert acme.send().admitted


def test_clock_set_back_over_midnight_keeps_the_usage_of_the_day() -> None:
    acme = make_sender(per_minute=100, per_day=3)
    acme.admitted(3)
    acme.now -= DAY
    decision = acme.send()
    assert not decision.admitted
    assert day(decision).ends_at == NOON - DAY // 2
    acme.now = decision.reported_window.reset * SECOND
    assert acme.send().admitted


def test_small_clock_differences_are_tolerated() -> None:
    acme = make_sender(per_minute=3, per_day=4)
    acme.now = NOON + DAY // 2 + 1_000  # One machine's clock is just past midnight,
    assert acme.send().admitted
    acme.wait(-0.002)  # another's just before it; both count the new day.
    assert (day(acme.send()).used, minute(acme.send()).used) == (2, 3)


def test_clock_set_forward_starts_new_windows() -> None:
    acme = make_sender(per_minute=3, per_day=4)
    acme.admitted(3)
    acme.now += 400 * DAY
    assert acme.admitted(5) == 3


def test_requests_and_rejections_of_each_day_are_stored() -> None:
    acme = make_sender(per_minute=3)
    acme.admitted(5)
    acme.now += DAY
    acme.admitted(1)
    write_behind.recorder.write()
    write_behind.recorder.write()  # A second write has nothing left to add.
    days = acme.keys[0].usage.order_by("day").values_list("admitted", "rejected")
    assert list(days) == [(3, 2), (1, 0)]
