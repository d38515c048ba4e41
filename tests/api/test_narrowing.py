"""Narrowed keys lose rights with the next request and never regain them; rotation inherits bans (D50)."""

from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.keys import networks
from accounts.keys.identity import KeyRejectionReason
from accounts.keys.scopes import READ_SCOPES, SCOPES
from accounts.models import Account, ApiKey, EventType, OutboxEvent, RateLimitState
from accounts.quota.bans import BAN_LENGTHS
from accounts.quota.limits import DAY, MINUTE, SECOND, to_datetime, to_microseconds
from tests.conftest import OPERATOR, Issue
from tests.support.customers import ban, expire
from tests.support.quota import Sender, find_rejection
from tests.support.thorough import times

ONE_DAY = timedelta(days=1)


def get_errors(key: ApiKey, **rights: Any) -> dict[str, list[str]]:
    """Narrow the key, which must fail and leave it unchanged; return the messages by field."""
    before = ApiKey.objects.filter(pk=key.pk).values().get()
    with pytest.raises(ValidationError) as caught:
        key.narrow(**rights, by=OPERATOR)
    assert ApiKey.objects.filter(pk=key.pk).values().get() == before
    assert not key.audit_entries.filter(action="narrowed").exists()
    if not hasattr(caught.value, "error_dict"):
        return {"": caught.value.messages}
    return caught.value.message_dict


# --- Narrowing


def test_narrowed_key_has_fewer_rights_and_keeps_the_others(issue: Issue) -> None:
    def read(key: ApiKey) -> Any:
        return key.scopes, key.expires_at, key.max_expires_at, key.allowed_networks

    key, end = issue()[0], timezone.now() + ONE_DAY
    networks = ["::ffff:10.0.0.0/104"]
    key.narrow(key_scopes=["pets:read"], expires_at=end, allowed_networks=networks, by=OPERATOR)
    assert read(key) == ("pets:read", end, end, ["10.0.0.0/8"])
    key, _ = issue(expires_at=end, allowed_networks=["10.0.0.0/8"])
    key.narrow(key_scopes=READ_SCOPES, by=OPERATOR)
    assert read(key) == (" ".join(READ_SCOPES), end, None, ["10.0.0.0/8"])


@pytest.mark.parametrize(
    ("current", "new", "result"),
    [
        ([], ["0.0.0.0/0"], ["0.0.0.0/0"]),
        (["10.0.0.0/8"], ["10.1.0.0/16", "10.1.0.0/16", " 10.2.3.4 "], ["10.1.0.0/16", "10.2.3.4/32"]),
        (["::/0", "192.0.2.0/24"], ["2001:db8::/32"], ["2001:db8::/32"]),
        (["192.0.2.0/24", "10.0.0.0/8"], ["::ffff:192.0.2.7"], ["192.0.2.7/32"]),
        (["10.0.0.0/8"], [], "An empty list would allow every address"),
        (["10.0.0.0/8"], ["0.0.0.0/0"], "0.0.0.0/0 is not within the allowed networks: 10.0.0.0/8"),
        (["10.0.0.0/8"], ["10.0.0.0/8", "192.0.2.1"], "192.0.2.1/32 is not within"),
        (["10.0.0.0/8"], ["::/0"], "::/0 is not within"),
        (["0.0.0.0/0"], ["::fffe:0:0/95"], "is not within"),
        (["::/0"], ["::ffff:10.0.0.0/104"], "10.0.0.0/8 is not within"),  # ::/0 allows no IPv4 address.
        (["10.0.0.0/8"], ["10.0.0.1/16"], "host bits set"),
        (["10.0.0.0/8"], ["the office"], "does not appear"),
        ([], [""], "Not a network"),
    ],
)
def test_networks_only_shrink(current: list[str], new: list[str], result: list[str] | str) -> None:
    if isinstance(result, list):
        assert networks.narrow(current, new) == result
    else:
        with pytest.raises(ValidationError, match=result):
            networks.narrow(current, new)


def test_all_errors_are_reported_by_field(issue: Issue) -> None:
    end = timezone.now() + ONE_DAY
    key, _ = issue(key_scopes=["pets:read"], expires_at=end, allowed_networks=["10.0.0.0/8"])
    more: dict[str, Any] = {"key_scopes": ["pets:read", "pets:write"], "expires_at": end + ONE_DAY}
    errors = get_errors(key, **more, allowed_networks=[])
    assert errors.keys() == {"key_scopes", "expires_at", "allowed_networks"}
    assert errors["key_scopes"] == ["The key lacks pets:write. It can lose scopes, but never gain any."]
    [message] = errors["expires_at"]
    assert message == f"The key already expires at {end:%Y-%m-%d %H:%M:%S} UTC, which is earlier."
    assert get_errors(key, key_scopes=[])["key_scopes"] == ["Choose at least one scope."]
    [message] = get_errors(key, expires_at=timezone.now())["expires_at"]
    assert "revoke the key to end it now" in message


def test_narrowing_must_change_something(issue: Issue) -> None:
    end = timezone.now() + ONE_DAY
    everywhere, _ = issue()
    limited, _ = issue(expires_at=end, allowed_networks=["10.0.0.0/8", "192.0.2.0/24"])
    for key, rights in (
        (everywhere, {}),
        (everywhere, {"key_scopes": SCOPES[::-1], "allowed_networks": []}),
        (limited, {"expires_at": end, "allowed_networks": ["192.0.2.0/24", "10.0.0.0/8"]}),
    ):
        assert "Nothing would change" in get_errors(key, **rights)[""][0]


@pytest.mark.parametrize("state", ["revoked", "expired"])
def test_only_active_keys_are_narrowed(issue: Issue, state: str) -> None:
    key, _ = issue()
    expire(key)
    if state == "revoked":
        key.revoke(reason="Lost", by=OPERATOR)
    assert get_errors(key, key_scopes=["pets:read"]) == {"": [f"Key {key.public_id} is {state}."]}


def test_narrowing_is_in_the_audit_trail_and_the_feed(issue: Issue, account: Account) -> None:
    key, _ = issue(name="Till 3", key_scopes=["pets:read", "orders:read"])
    account.suspend(reason="Unpaid", by=OPERATOR)  # Its keys can still be narrowed.
    end = timezone.now() + ONE_DAY
    key.narrow(key_scopes=["pets:read"], expires_at=end, reason="Reads pets only", by=OPERATOR)
    entry = key.audit_entries.get(action="narrowed")
    assert (entry.actor_name, entry.reason) == ("tests", "Reads pets only")
    assert (entry.before["scopes"], entry.after["scopes"]) == ("pets:read orders:read", "pets:read")
    assert entry.after.keys() == {"scopes", "expires_at", "max_expires_at"}
    event = OutboxEvent.objects.get(type=EventType.KEY_NARROWED)
    assert (event.account_id, event.data) == (key.account_id, key.build_event(EventType.KEY_NARROWED).data)


def test_narrowing_takes_effect_with_the_next_request(db: None) -> None:
    sender = Sender(60, 1_000, now=to_microseconds(timezone.now()))
    sender.add_key()
    narrowed, other = sender.keys
    for index in (0, 1):
        caller, _ = sender.admit(index)
        assert caller.scopes == set(SCOPES)
    narrowed.narrow(key_scopes=["pets:read"], by=OPERATOR)
    for caller, _ in (sender.admit(), sender.peek()):
        assert caller.scopes == {"pets:read"}
    narrowed.narrow(allowed_networks=["192.0.2.0/30"], by=OPERATOR)
    sender.admit()
    narrowed.narrow(allowed_networks=["192.0.2.2/31"], by=OPERATOR)
    for send in (sender.admit, sender.peek):
        assert find_rejection(send) is KeyRejectionReason.NETWORK_NOT_ALLOWED
    other.narrow(expires_at=to_datetime(sender.now + MINUTE), by=OPERATOR)
    sender.admit(1)
    sender.wait(60)
    assert find_rejection(sender.admit, 1) is KeyRejectionReason.EXPIRED


# --- Rotation


@pytest.mark.parametrize("expires_at", [None, timezone.now() + 2 * ONE_DAY])
def test_database_rejects_an_expiry_beyond_the_latest_one(issue: Issue, expires_at: Any) -> None:
    key, _ = issue()
    key.narrow(expires_at=timezone.now() + ONE_DAY, by=OPERATOR)
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.filter(pk=key.pk).update(expires_at=expires_at)


NETWORKS = [
    "0.0.0.0/0", "10.0.0.0/8", "10.128.0.0/9", "10.1.2.3", "::/0", "2001:db8::/32", "::ffff:10.0.0.0/104",
]  # fmt: skip
ADDRESSES = [ip_address(text) for text in ("10.1.2.3", "10.200.0.1", "192.0.2.1", "2001:db8::1", "fe80::1")]
NARROWING = st.fixed_dictionaries(
    {},
    optional={
        "key_scopes": st.lists(st.sampled_from(SCOPES)),
        "expires_at": st.integers(-1, 400).map(lambda days: timezone.now() + days * ONE_DAY),
        "allowed_networks": st.lists(st.sampled_from(NETWORKS), max_size=3),
    },
)


def get_rights(key: ApiKey) -> tuple[set[str], set[Any], Any]:
    allowed = {address for address in ADDRESSES if networks.is_allowed(address, key.allowed_networks)}
    return set(key.scopes.split()), allowed, key.max_expires_at


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=times(150, 12)
)
@given(
    lifetime=st.none() | st.integers(1, 300),
    start=st.lists(st.sampled_from(NETWORKS), max_size=3),
    steps=st.lists(st.none() | NARROWING, min_size=1, max_size=8),
)
def test_no_sequence_of_changes_adds_a_right(
    account: Account, lifetime: int | None, start: list[str], steps: list[dict[str, Any] | None]
) -> None:
    """A step of None is a rotation. Rights and the lifetime of the latest key may only shrink."""
    now = timezone.now()
    account = Account.objects.create(name=f"Account {Account.objects.count()}", plan_id=account.plan_id)
    expires_at = now + lifetime * ONE_DAY if lifetime else None
    key, _ = ApiKey.objects.issue(account, expires_at=expires_at, allowed_networks=start, by=OPERATOR)
    for step in steps:
        scopes, addresses, latest = get_rights(key)
        end = key.expires_at
        try:
            if step is None:
                key, _ = key.rotate(by=OPERATOR)
            else:
                key.narrow(**step, by=OPERATOR)
        except ValidationError:
            key.refresh_from_db()
        new_scopes, new_addresses, new_latest = get_rights(key)
        assert new_scopes
        assert new_scopes <= scopes
        assert new_addresses <= addresses
        if latest is not None:
            assert new_latest is not None
            assert new_latest <= latest
        if new_latest is not None or step is not None:
            assert end is None or (key.expires_at is not None and key.expires_at <= end)
        if lifetime is not None:
            assert key.expires_at is not None
            assert key.expires_at - key.created_at <= lifetime * ONE_DAY


def test_replacement_ends_with_the_narrowed_key(issue: Issue) -> None:
    key, end = issue()[0], timezone.now() + ONE_DAY
    key.narrow(expires_at=end, by=OPERATOR)
    new, _ = key.rotate(by=OPERATOR)
    assert (new.expires_at, new.max_expires_at) == (end, end)


# --- Bans


def test_account_with_a_banned_key_gets_no_other_key_until_the_ban_is_lifted(issue: Issue) -> None:
    key, other = issue()[0], issue()[0]
    issue(of=Account.objects.create(name="Other", plan_id="free"))
    ban(key)
    new, _ = key.rotate(by=OPERATOR)  # It inherits the ban.
    get_a_key: tuple[Callable[[], object], ...] = (issue, lambda: other.rotate(by=OPERATOR))
    for banned in (key, new):  # Each ban is lifted on its own.
        banned.revoke(reason="A way around the ban", by=OPERATOR)
        message = "Key .* of this account is banned until .* UTC. Wait until it ends"
        for get_key in get_a_key:
            with pytest.raises(ValidationError, match=message):
                get_key()
        banned.unban(reason="They fixed it", by=OPERATOR)
    other.rotate(by=OPERATOR)


@pytest.mark.parametrize("is_past", [False, True])
def test_replacement_inherits_the_ban_and_its_level(db: None, *, is_past: bool) -> None:
    sender = Sender(
        1, 1_000, now=to_microseconds(timezone.now()) - (10 * MINUTE if is_past else 25 * SECOND)
    )
    ban_end = sender.get_banned().banned_until
    if is_past:
        sender.now = ban_end
    new, text = sender.keys[0].rotate(by=OPERATOR)
    sender.texts.append(text)
    if not is_past:
        assert sender.send(1).banned_until == sender.send(0).banned_until == ban_end
        sender.now = ban_end
    assert not sender.send(1).banned
    assert sender.get_banned(1).banned_until - sender.now == BAN_LENGTHS[1]
    bans = 1 if is_past else 2  # The inherited one is recorded as well.
    assert new.audit_entries.filter(action="banned").count() == bans
    assert OutboxEvent.objects.filter(type=EventType.KEY_BANNED).count() == 1 + bans


def test_account_gets_keys_again_when_the_ban_has_ended(issue: Issue) -> None:
    key, _ = issue()
    now = to_microseconds(timezone.now())
    RateLimitState.objects.create(key=key, banned_at=now - DAY, banned_until=now, ban_level=1)
    issue()


@pytest.mark.django_db
def test_rotation_forgets_no_strikes() -> None:
    sender = Sender(1, 1_000, now=to_microseconds(timezone.now()))
    start = sender.now
    assert sender.send().admitted
    for second in (0, *range(2, 20)):
        sender.now = start + second * SECOND
        assert not sender.send().banned
    _, text = sender.keys[0].rotate(by=OPERATOR)
    sender.texts.append(text)
    for second in (20, 21):
        sender.now = start + second * SECOND
        banned = sender.send(1).banned
    assert banned
