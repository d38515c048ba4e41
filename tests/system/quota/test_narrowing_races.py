"""Concurrent narrowing, rotation, issuing and bans of keys (D50)."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from accounts.models import Account, ApiKey, EventType, OutboxEvent, RateLimitState
from accounts.quota.limits import SECOND, to_microseconds
from petstore.audit.models import AuditEntry
from tests.conftest import COMMITTED, OPERATOR
from tests.support.concurrency import before_commit, run_concurrently
from tests.support.quota import Sender
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import times

pytestmark = COMMITTED


@pytest.fixture
def key(transactional_db: None) -> ApiKey:
    account = Account.objects.create(name="Acme Pets", plan_id="free")
    return ApiKey.objects.issue(account, by=OPERATOR)[0]


def prepare_ban(key: ApiKey) -> Callable[[], object]:
    """Return a function that bans the key for ignoring 429 until now."""
    now = to_microseconds(timezone.now())
    return lambda: ApiKey.objects.get(pk=key.pk).ban(now, now - 30 * SECOND, 20)


def capture_error(action: Callable[[], object]) -> Callable[[], str]:
    """Return a function that returns the message of the ValidationError, or ''."""

    def attempt() -> str:
        try:
            action()
        except ValidationError as error:
            return error.messages[0]
        return ""

    return attempt


def list_actions() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))


def assert_both_banned(key: ApiKey) -> None:
    old, new = ApiKey.objects.select_related("rate_limit_state").filter(account=key.account).order_by("id")
    now = timezone.now()
    assert new.rotated_from == old
    assert old.get_ban_end(now) == new.get_ban_end(now) is not None
    assert old.rate_limit_state.ban_level == new.rate_limit_state.ban_level == 1
    assert OutboxEvent.objects.filter(type=EventType.KEY_BANNED).count() == 2


@NEEDS_POSTGRESQL
def test_ban_written_before_the_commit_of_a_rotation_bans_both_keys(key: ApiKey) -> None:
    with before_commit(prepare_ban(key)):
        key.rotate(by=OPERATOR)
    assert_both_banned(key)


@NEEDS_POSTGRESQL
def test_rotation_before_the_commit_of_a_ban_is_banned(key: ApiKey) -> None:
    record = prepare_ban(key)
    with before_commit(lambda: key.rotate(by=OPERATOR)):
        record()
    assert_both_banned(key)


@NEEDS_POSTGRESQL
def test_ban_that_the_database_decides_during_a_rotation_bans_both_keys(transactional_db: None) -> None:
    sender = Sender(1, 1_000, now=to_microseconds(timezone.now()) - 21 * SECOND)
    for second in (0, *range(2, 21)):
        sender.wait(second and (1 if second > 2 else 2))
        assert not sender.send().banned
        sender.send()
    with before_commit(sender.get_banned):
        sender.keys[0].rotate(by=OPERATOR)
    assert_both_banned(sender.keys[0])


@NEEDS_POSTGRESQL
def test_ban_waits_for_the_commit_of_an_issue(key: ApiKey) -> None:
    with before_commit(prepare_ban(key)):
        ApiKey.objects.issue(key.account, by=OPERATOR)
    assert list_actions() == ["issued", "issued", "banned"]


@NEEDS_POSTGRESQL
def test_issue_waits_for_the_commit_of_a_ban(key: ApiKey) -> None:
    messages = []
    record = prepare_ban(key)
    issue = capture_error(lambda: ApiKey.objects.issue(key.account, by=OPERATOR))
    with before_commit(lambda: messages.append(issue())):
        record()
    assert f"Key {key.public_id} of this account is banned" in messages[0]
    assert ApiKey.objects.count() == 1


@NEEDS_POSTGRESQL
def test_rotation_during_a_narrowing_copies_the_narrowed_rights(key: ApiKey) -> None:
    end = timezone.now() + timedelta(days=2)
    with before_commit(lambda: key.rotate(by=OPERATOR)):
        ApiKey.objects.get(pk=key.pk).narrow(key_scopes=["pets:read"], expires_at=end, by=OPERATOR)
    new = ApiKey.objects.latest("id")
    assert (new.scopes, new.expires_at, new.max_expires_at) == ("pets:read", end, end)


def test_concurrent_narrowings_never_restore_a_scope(key: ApiKey) -> None:
    choices = [["pets:read", "orders:read"], ["pets:read", "events:read"], ["pets:read", "pets:write"]]

    def narrow(scopes: list[str]) -> Callable[[], str]:
        return capture_error(lambda: ApiKey.objects.get(pk=key.pk).narrow(key_scopes=scopes, by=OPERATOR))

    messages = run_concurrently(*map(narrow, choices))
    assert sorted(message.partition(" ")[0] for message in messages) == ["", "The", "The"]
    key.refresh_from_db()
    assert key.scopes.split() == choices[messages.index("")]


def test_concurrent_changes_of_a_key_neither_deadlock_nor_lose_a_ban(transactional_db: None) -> None:
    for number in range(times(40, 3)):
        account = Account.objects.create(name=f"Racers {number}", plan_id="free")
        key = ApiKey.objects.issue(account, by=OPERATOR)[0]
        record = prepare_ban(key)
        end = timezone.now() + timedelta(days=1)
        copies = [ApiKey.objects.get(pk=key.pk) for _ in range(2)]
        run_concurrently(
            record,
            capture_error(partial(key.rotate, by=OPERATOR)),
            partial(copies[0].narrow, key_scopes=["pets:read"], by=OPERATOR),
            capture_error(partial(copies[1].narrow, expires_at=end, by=OPERATOR)),
            capture_error(partial(ApiKey.objects.issue, account, by=OPERATOR)),
            capture_error(partial(account.suspend, reason="Unpaid", by=OPERATOR)),
            capture_error(partial(account.lift_suspension, reason="Paid", by=OPERATOR)),
        )
        states = RateLimitState.objects.filter(
            key__account=account, banned_until__gt=to_microseconds(timezone.now())
        )
        replacement = ApiKey.objects.filter(rotated_from=key).values_list("pk", flat=True)
        assert set(states.values_list("key", flat=True)) == {key.pk, *replacement}
