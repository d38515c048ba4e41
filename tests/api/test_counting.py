"""How the database counts: its statements, rows that are replaced, and concurrent requests."""

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

import pytest
from django.conf import settings

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectionReason
from accounts.models import ApiKey, QuotaUsage, RateLimitState, StrikeCounter, UsageGeneration
from accounts.quota import store
from accounts.quota.store import QuotaCall
from tests.conftest import COMMITTED, OPERATOR, Api, Issue
from tests.support.concurrency import run_concurrently
from tests.support.costs import recorded_statements
from tests.support.quota import Sender, find_rejection, minute, parse

THREADS = 8


def count_statements(send: Callable[[], object]) -> int:
    with recorded_statements() as statements:
        send()
    return len(statements)


def test_each_outcome_takes_a_known_number_of_statements(db: None) -> None:
    sender = Sender(per_minute=2, per_day=100)
    sender.send()  # Creates the row of the account's usage.
    assert count_statements(sender.send) == 1
    assert count_statements(sender.peek) == 2
    sender.send()  # Creates the row of the key's strikes.
    assert count_statements(sender.send) == 2
    sender.get_banned()
    assert count_statements(sender.send) == 3
    sender.keys[0].revoke(reason="Leaked.", by=OPERATOR)
    assert count_statements(lambda: find_rejection(sender.admit)) == 3


@pytest.mark.parametrize("path", ["/pets", "/account"])
def test_secret_is_in_no_statement(issue: Issue, path: str) -> None:
    text = issue(allowed_networks=["127.0.0.0/8"])[1]
    with recorded_statements() as statements:
        assert Api(text).get(path).status_code == 200
    executed = repr(statements)
    for pepper in settings.API_KEY_PEPPERS.values():
        assert key_format.compute_digest(parse(text), pepper) in executed
    assert text.split("_")[3][: key_format.SECRET_LENGTH] not in executed


def test_networks_that_change_after_they_were_checked_are_checked_again(db: None, monkeypatch: Any) -> None:
    sender = Sender(per_minute=5, per_day=100)
    sender.keys[0].narrow(allowed_networks=["192.0.2.0/24"], by=OPERATOR)
    read = QuotaCall.read

    def read_before_a_change(call: QuotaCall) -> Any:
        state = read(call)
        monkeypatch.undo()
        sender.keys[0].narrow(allowed_networks=["192.0.2.128/25"], by=OPERATOR)
        return state

    monkeypatch.setattr(QuotaCall, "read", read_before_a_change)
    assert find_rejection(sender.admit) is KeyRejectionReason.NETWORK_NOT_ALLOWED
    _, decision = store.admit(parse(sender.texts[0]), IPv4Address("192.0.2.128"), sender.now)
    assert minute(decision).used == 1


def test_key_with_networks_takes_one_statement_until_they_change(db: None) -> None:
    sender = Sender(per_minute=9, per_day=100)
    for network in ("192.0.2.0/24", "192.0.2.1"):
        sender.keys[0].narrow(allowed_networks=[network], by=OPERATOR)
        sender.send()
        assert count_statements(sender.send) == 1
        outside = find_rejection(store.admit, parse(sender.texts[0]), IPv4Address("192.0.3.1"), sender.now)
        assert outside is KeyRejectionReason.NETWORK_NOT_ALLOWED
    ApiKey.objects.filter(pk=sender.keys[0].pk).update(allowed_networks=["192.0.2.9"])
    assert find_rejection(sender.admit) is KeyRejectionReason.NETWORK_NOT_ALLOWED


@pytest.mark.parametrize(("path", "reason"), [("/pets", ""), ("/pets", "usage"), ("/account", "networks")])
def test_request_whose_state_keeps_changing_is_a_503(
    issue: Issue, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    text = issue()[1]
    read = QuotaCall.read

    def read_another_state(call: QuotaCall) -> Any:
        state: Any = read(call)
        return state._replace(reason=reason)

    monkeypatch.setattr(QuotaCall, "read", read_another_state)
    monkeypatch.setattr(QuotaUsage, "renew", lambda account_id: None)
    response = Api(text).get(path)
    assert (response.status_code, response.json()["code"]) == (503, "service_unavailable")
    assert int(response["Retry-After"]) >= 1


def wear_out(model: type[QuotaUsage | StrikeCounter], updates_left: int = 0) -> None:
    model.objects.update(updates=model.MAX_UPDATES - updates_left)


def test_usage_is_counted_exactly_while_its_row_is_replaced(db: None) -> None:
    sender = Sender(per_minute=20, per_day=100)
    for generation in range(1, 4):
        assert sender.admitted(2) == 2
        wear_out(QuotaUsage, updates_left=1)
        assert sender.admitted(3) == 3
        usage = QuotaUsage.objects.get()
        assert (usage.generation, usage.updates, usage.day_used) == (generation, 2, 5 * generation)
        assert UsageGeneration.objects.get().generation == generation
    QuotaUsage.renew(sender.account.pk)  # Only the first request that finds a row worn out replaces it.
    assert QuotaUsage.objects.get().generation == 3
    assert sender.admitted(10) == 5
    assert store.read_windows(sender.account, sender.now)[1].used == 20


def test_strikes_are_counted_exactly_while_their_row_is_replaced(db: None) -> None:
    sender = Sender(per_minute=1, per_day=100)
    sender.send()
    bans = [sender.send().banned]
    sender.wait(1)
    for _ in range(20):
        wear_out(StrikeCounter, updates_left=len(bans) % 2)
        sender.wait(1)
        bans.append(sender.send().banned)
    assert bans == [False] * 20 + [True]
    assert StrikeCounter.objects.get().generation == RateLimitState.objects.get().strike_generation > 0


def test_account_with_counters_can_be_deleted(db: None) -> None:
    sender, other = (Sender(per_minute=1, per_day=100) for _ in range(2))
    sender.get_banned()
    other.get_banned()
    sender.keys[0].delete()
    sender.account.delete()
    assert QuotaUsage.objects.get().account == UsageGeneration.objects.get().account == other.account
    assert StrikeCounter.objects.get().key == RateLimitState.objects.get().key == other.keys[0]


@COMMITTED
@pytest.mark.parametrize("limits", [(60, 1_000), (1_000, 60)])
def test_concurrent_requests_are_counted_exactly_while_rows_are_replaced(limits: tuple[int, int]) -> None:
    sender = Sender(*limits)
    admitted = 0
    for _ in range(3):  # The first requests create the row.
        admitted += sum(run_concurrently(*[lambda: sender.admitted(3)] * THREADS))
        wear_out(QuotaUsage, updates_left=3)
    assert admitted == 60
    assert QuotaUsage.objects.get().generation == 2
    assert not sender.send().admitted
