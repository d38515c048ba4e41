"""Bans (D26), by a clock that the test controls."""

import time
from collections.abc import Iterable
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.exceptions import ValidationError
from django.db import OperationalError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from accounts.actions import Action
from accounts.models import EventType, PlanCode, RateLimitState, StrikeCounter
from accounts.models.events import OutboxEvent
from accounts.quota import bans
from accounts.quota.bans import BAN_LENGTHS
from accounts.quota.limits import DAY, MINUTE, SECOND, RateLimitDecision
from petstore.api.errors import ErrorCode
from tests.conftest import OPERATOR
from tests.support.quota import NOON, Sender, day, minute
from tests.support.thorough import times

pytestmark = pytest.mark.django_db

# The fastest ban, in seconds: the first rejection, then 20 strikes.
FASTEST_BAN = (0, *range(2, 22))
ATTEMPTS = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=times(50, 8)
)


def make_sender(per_minute: int = 1, per_day: int = 1_000, *, keys: int = 1) -> Sender:
    """Make a sender whose window rejects requests from NOON on, for 59 seconds or until midnight."""
    sender = Sender(per_minute, per_day, now=NOON - SECOND)
    for _ in range(keys - 1):
        sender.add_key()
    assert sender.admitted(min(per_minute, per_day)) == min(per_minute, per_day)
    sender.now = NOON
    return sender


def send_rejected(sender: Sender, seconds: Iterable[float], key: int = 0) -> list[bool]:
    """Send rejected requests at these seconds after NOON; return whether each found the key banned."""
    bans = []
    for second in seconds:
        sender.now = NOON + round(second * SECOND)
        decision = sender.send(key)
        assert not decision.admitted
        bans.append(decision.banned)
    return bans


# --- Strikes


def test_twentieth_strike_bans_the_key() -> None:
    acme = make_sender()
    assert send_rejected(acme, FASTEST_BAN) == [False] * 20 + [True]
    decision = acme.send()
    assert decision.error_code is ErrorCode.API_KEY_BANNED
    window = decision.reported_window
    assert (decision.retry_after, window.reset) == (300, NOON // SECOND + 21 + 300)
    assert (window.name, window.limit, window.remaining) == ("ban", 1, 0)


@pytest.mark.parametrize(
    ("per_minute", "per_day", "rejections"), [(43, 1_000, 22), (61, 1_000, 31), (200, 1, 100)]
)
def test_ban_needs_rejections_of_half_the_limit(per_minute: int, per_day: int, rejections: int) -> None:
    """The last of these rejections need not be a strike."""
    acme = make_sender(per_minute, per_day)
    assert not any(send_rejected(acme, FASTEST_BAN))
    bans = send_rejected(acme, [21] * (rejections - len(FASTEST_BAN)))
    assert bans == [False] * (len(bans) - 1) + [True]


# --- Windows


def test_strikes_of_a_used_up_day_expire_after_sixty_seconds() -> None:
    last = 59.999999
    strikes = [last - second for second in range(19, -1, -1)]
    acme, globex = make_sender(per_day=1), make_sender(per_day=1)
    assert send_rejected(acme, [0, *strikes]) == [False] * 20 + [True]
    # The last one starts another 60 seconds.
    assert not any(send_rejected(globex, [0, *strikes[:-1], 60]))
    assert send_rejected(globex, [60 + second for second in FASTEST_BAN[1:]]) == [False] * 19 + [True]


def test_strikes_of_one_window_or_minute_do_not_count_in_another() -> None:
    acme = make_sender(per_minute=1, per_day=2)
    assert not any(send_rejected(acme, FASTEST_BAN[:-1]))
    acme.account.assign(PlanCode.ENTERPRISE, 1, 1)  # The day rejects requests within the same minute.
    assert not any(send_rejected(acme, range(21, 42)[:-1]))
    assert acme.send().error_code is ErrorCode.DAILY_QUOTA_EXCEEDED
    assert send_rejected(acme, [41, 42]) == [False, True]
    globex = make_sender()
    for minutes in range(2):
        assert not any(send_rejected(globex, [60 * minutes + second for second in FASTEST_BAN[:-1]]))
        globex.now = globex.send().reported_window.ends_at
        assert globex.send().admitted


def test_strikes_of_one_day_do_not_count_on_the_next() -> None:
    midnight = 20_801 * DAY
    acme = Sender(per_minute=1_000, per_day=1, now=midnight - 30 * SECOND)
    for start in (acme.now, midnight):
        acme.now = start
        assert acme.send().admitted
        for second in FASTEST_BAN[:-1]:
            acme.now = start + second * SECOND
            assert acme.send().error_code is ErrorCode.DAILY_QUOTA_EXCEEDED


def test_strikes_count_per_key_not_per_account() -> None:
    acme = make_sender(keys=2)
    assert not any(send_rejected(acme, FASTEST_BAN[:-1], key=0))
    assert not any(send_rejected(acme, [21], key=1))
    assert send_rejected(acme, [21], key=0) == [True]
    acme.now = NOON + MINUTE
    assert acme.send(1).admitted


def is_banned_by_the_rule(seconds: list[int]) -> bool:
    """Apply D26 to one window with a low limit. Times are microseconds after the first rejection."""
    strikes = [0]
    for second in seconds:
        if second >= 2 * SECOND and (len(strikes) == 1 or second - strikes[-1] >= SECOND):
            strikes.append(second)
    return len(strikes) > 20


GAPS = st.sampled_from([0, 1, SECOND // 2, SECOND - 1, SECOND, SECOND + 1, 2 * SECOND - 1, 2 * SECOND])


@ATTEMPTS
@given(gaps=st.lists(GAPS, min_size=20, max_size=45), by_day=st.booleans())
@example(gaps=[2 * SECOND, *[SECOND] * 19], by_day=False)
@example(gaps=[2 * SECOND - 1, SECOND + 1, *[SECOND] * 19], by_day=True)
@example(gaps=[2 * SECOND, SECOND - 1, SECOND + 1, *[SECOND] * 18], by_day=True)
@example(gaps=[2 * SECOND, *[SECOND] * 18, SECOND - 1, SECOND], by_day=False)
def test_stores_ban_when_the_rule_does(gaps: list[int], *, by_day: bool) -> None:
    acme = Sender(per_minute=1, per_day=1 if by_day else 1_000)
    acme.admitted(1)
    sent: list[int] = [0]
    acme.now = NOON if by_day else NOON + 1
    first = acme.now
    assert not acme.send().banned
    for gap in gaps:
        if sent[-1] + gap >= MINUTE - 1:
            break
        sent.append(sent[-1] + gap)
        acme.now = first + sent[-1]
        banned = acme.send().banned
        assert banned == is_banned_by_the_rule(sent)
        if banned:
            break


# --- Which clients are banned


@pytest.mark.parametrize("per_day", [60, 1_000])
def test_client_with_100_requests_in_flight_is_not_banned(per_day: int) -> None:
    acme = make_sender(per_minute=60, per_day=per_day)
    assert not any(send_rejected(acme, [number / 50 for number in range(100)]))


class WaitingClient:
    """A client with requests in flight that honors Retry-After, and otherwise continues at once."""

    def __init__(self, starts_at: int, in_flight: list[int]) -> None:
        self.due = starts_at
        self.in_flight = in_flight  # Offsets of the decisions after the first one, below a second.

    def requests(self) -> list[int]:
        """Return the times of the next requests."""
        return [self.due + offset for offset in self.in_flight]


def send_and_wait(sender: Sender, clients: list[WaitingClient], until: int) -> list[RateLimitDecision]:
    """Let these clients share the key until then; return the rejections."""
    decisions = []
    queue = [(at, client) for client in clients for at in client.requests()]
    while queue:
        at, client = min(queue, key=lambda entry: entry[0])
        queue.remove((at, client))
        sender.now = max(sender.now, at)
        decision = sender.send()
        if decision.admitted:
            client.due = max(client.due, sender.now + 1)
        else:
            decisions.append(decision)
            client.due = max(client.due, sender.now + decision.retry_after * SECOND)
        if sender.now < until and not any(other is client for _, other in queue):
            queue += [(at, client) for at in client.requests()]
    return decisions


# Seconds after noon at which 19 clients send first, each with two requests in flight.
WORST_STARTS = {
    "a second apart after 2 seconds": [0, *range(2, 20)],
    "just under a second apart": [number * 0.999999 for number in range(19)],
    "just over a second apart": [number * 1.000001 for number in range(19)],
    "at the end of the window": range(40, 59),
    "after a rounded Retry-After": [number + 0.000001 for number in range(19)],
}


@pytest.mark.parametrize("starts", WORST_STARTS.values(), ids=WORST_STARTS)
@pytest.mark.parametrize("per_day", [1, 1_000])
def test_19_waiting_clients_with_one_key_are_never_banned(starts: Iterable[float], per_day: int) -> None:
    clients = [WaitingClient(NOON + round(start * SECOND), [0, SECOND - 1]) for start in starts]
    decisions = send_and_wait(make_sender(per_day=per_day), clients, NOON + 3 * MINUTE)
    assert len(decisions) >= 2 * 19
    assert not any(decision.banned for decision in decisions)


@ATTEMPTS
@given(
    clients=st.lists(
        st.builds(
            WaitingClient,
            st.integers(NOON, NOON + MINUTE),
            st.lists(st.integers(0, SECOND - 1), min_size=1, max_size=3).map(sorted),
        ),
        min_size=1,
        max_size=19,
    ),
    limits=st.sampled_from([(1, 1_000), (3, 5), (2, 1), (5, 20)]),
    to_midnight=st.integers(1, 3 * MINUTE),
)
def test_up_to_19_waiting_clients_are_never_banned_at_any_time(
    db: None, clients: list[WaitingClient], limits: tuple[int, int], to_midnight: int
) -> None:
    start = 20_801 * DAY - to_midnight
    for client in clients:
        client.due += start - NOON
    acme = Sender(*limits, now=start)
    assert not any(decision.banned for decision in send_and_wait(acme, clients, start + 3 * MINUTE))


# --- Bans


def test_ban_that_could_not_be_stored_starts_with_the_next_rejection(monkeypatch: Any) -> None:
    acme = make_sender()
    assert not any(send_rejected(acme, FASTEST_BAN[:-1]))
    with monkeypatch.context() as patch:
        patch.setattr("accounts.quota.store.ban", Mock(side_effect=OperationalError))
        with pytest.raises(OperationalError):
            send_rejected(acme, FASTEST_BAN[-1:])
    assert send_rejected(acme, [21.000001]) == [True]


def test_ban_has_one_audit_entry_and_one_event() -> None:
    acme = make_sender()
    banned_until = acme.get_banned().banned_until
    acme.admitted(10)
    entry = acme.keys[0].audit_entries.get(action=Action.BANNED)
    assert (entry.actor_name, entry.reason) == ("the service", bans.describe(43, BAN_LENGTHS[0]))
    event = OutboxEvent.objects.get(type=EventType.KEY_BANNED)
    assert acme.keys[0].public_id in event.data
    assert banned_until == acme.now + BAN_LENGTHS[0]
    assert RateLimitState.objects.get(key=acme.keys[0]).banned_until == banned_until


def test_requests_during_a_ban_do_not_prolong_it() -> None:
    """They show the remaining requests of the account, whose minute has ended."""
    acme = make_sender()
    banned_until = acme.get_banned().banned_until
    acme.wait(60)
    decision = acme.send()
    assert (minute(decision).remaining, day(decision).remaining) == (1, 999)
    for second in range(30, 319, 29):
        assert all(send_rejected(acme, [second] * 2))
    acme.now = banned_until
    assert acme.send().admitted


def test_bans_escalate_and_clean_days_lower_the_level() -> None:
    acme = make_sender(per_day=1_000_000)

    def ban_seconds() -> int:
        decision = acme.get_banned()
        acme.now = decision.banned_until
        return (decision.banned_until - decision.now) // SECOND

    assert [ban_seconds() for _ in range(6)] == [300, 900, 3_600, 21_600, 86_400, 86_400]
    acme.now += DAY
    assert ban_seconds() == 21_600
    acme.now += 9 * DAY
    assert ban_seconds() == 300


# --- Resetting strikes


def test_lifted_ban_ends_at_once_and_lowers_the_level_without_strikes() -> None:
    """The clock is close to the real one, which lifting the ban uses."""
    acme = Sender(per_minute=1, per_day=1_000_000, now=time.time_ns() // 1000 - 22 * SECOND)
    acme.get_banned()
    acme.keys[0].unban(reason="A loop in their code, fixed.", by=OPERATOR)
    entry = acme.keys[0].audit_entries.get(action=Action.UNBANNED)
    assert entry.reason == "A loop in their code, fixed."
    for reason, message in ((" ", "Say why"), ("Again", "is not banned")):
        with pytest.raises(ValidationError, match=message):
            acme.keys[0].unban(reason=reason, by=OPERATOR)
    start = acme.now = time.time_ns() // 1000
    banned_at = acme.get_banned().now
    assert banned_at - start == 21 * SECOND
    assert RateLimitState.objects.get(key=acme.keys[0]).banned_until == banned_at + BAN_LENGTHS[0]
    assert OutboxEvent.objects.filter(type=EventType.KEY_BANNED).count() == 2


def test_lost_strikes_count_again_from_zero() -> None:
    acme = make_sender(per_day=1)
    assert not any(send_rejected(acme, FASTEST_BAN[:-1]))
    StrikeCounter.objects.all().delete()
    assert not any(send_rejected(acme, range(21, 41)))
