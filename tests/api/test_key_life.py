"""The life cycle of keys: issue, rotation, expiry, revocation and constraints (D16, D18, D19)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.keys.scopes import SCOPES
from accounts.models import MAX_LIFETIME, Account, Actor, ApiKey, PlanCode
from petstore import audit
from petstore.audit.models import AuditEntry
from tests.conftest import COMMITTED, OPERATOR, Api, Issue
from tests.support.concurrency import run_concurrently

ONE_DAY = timedelta(days=1)


def get_history(key: ApiKey) -> list[tuple[str, str, str]]:
    return list(key.audit_entries.order_by("id").values_list("action", "actor_name", "reason"))


# --- Issuing -------------------------------------------------------------------------------------


def test_secret_is_stored_nowhere(issue: Issue) -> None:
    key, text = issue(name="Till 3")
    secret = text.split("_")[3]
    stored = repr([*ApiKey.objects.values(), *AuditEntry.objects.values(), *Account.objects.values()])
    assert key.public_id in stored
    assert secret not in stored
    assert secret not in repr(key)
    assert secret not in str(key)


def test_pepper_with_the_highest_number_signs(issue: Issue, settings: Any) -> None:
    settings.API_KEY_PEPPERS = {10: b"ten", 9: b"nine"}
    assert issue()[0].pepper_number == 10


def test_rights_are_stored_in_canonical_form(issue: Issue) -> None:
    assert issue()[0].scopes == " ".join(SCOPES)
    key, _ = issue(
        key_scopes=["orders:read", "pets:read", "orders:read"],
        allowed_networks=[" 10.0.0.0/255.0.0.0", "::ffff:192.0.2.1", "2001:0DB8::/32"],
    )
    assert key.scopes == "pets:read orders:read"
    assert key.allowed_networks == ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"]


def test_invalid_key_is_rejected_and_not_stored(issue: Issue) -> None:
    invalid: dict[str, dict[str, Any]] = {
        "Choose at least one scope": {"key_scopes": []},
        "'pets:fly' is not a scope": {"key_scopes": ["pets:read", "pets:fly"]},
        "'the office' does not appear": {"allowed_networks": ["the office"]},
        "host bits set": {"allowed_networks": ["10.0.0.1/8"]},
        "Not a network": {"allowed_networks": [""]},
        "must end later than it begins": {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)},
        "within 100 years": {"expires_at": datetime.max.replace(tzinfo=UTC)},
        "255 characters": {"name": "n" * 256},
    }
    for problem, options in invalid.items():
        with pytest.raises(ValidationError, match=problem):
            issue(**options)
    assert not ApiKey.objects.exists()
    assert not AuditEntry.objects.exists()


def test_networks_in_another_form_are_rejected(issue: Issue) -> None:
    key, _ = issue()
    for key.allowed_networks in (
        [" 10.0.0.0/8"],
        ["10.0.0.0/8\n"],
        ["the office"],
        [5],
        [None],
        "10.0.0.0/8",
    ):
        with pytest.raises(ValidationError):
            key.full_clean()


# --- Rotating ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lifetime", "age", "options", "remaining"),
    [
        (None, timedelta(0), {}, ONE_DAY),
        (None, timedelta(0), {"overlap": timedelta(hours=3)}, timedelta(hours=3)),
        (timedelta(hours=1), timedelta(0), {}, timedelta(hours=1)),
        (30 * ONE_DAY, 20 * ONE_DAY, {}, ONE_DAY),
        (MAX_LIFETIME - timedelta(minutes=1), timedelta(0), {}, ONE_DAY),
    ],
)
def test_replacement_has_the_rights_and_lifetime_of_the_old_key_which_soon_expires(
    issue: Issue, lifetime: timedelta | None, age: timedelta, options: Any, remaining: timedelta
) -> None:
    now = timezone.now()
    rights: Any = {"key_scopes": ["pets:read"], "allowed_networks": ["127.0.0.0/8"]}
    old, old_text = issue(name="Till 3", expires_at=now - age + lifetime if lifetime else None, **rights)
    ApiKey.objects.filter(pk=old.pk).update(created_at=now - age)
    new, text = old.rotate(by=OPERATOR, **options)
    assert (new.account, new.name, new.scopes, new.allowed_networks, new.rotated_from) == (
        old.account, "Till 3", "pets:read", ["127.0.0.0/8"], old,
    )  # fmt: skip
    assert old.expires_at is not None
    assert is_near(old.expires_at, now + remaining)
    assert (new.expires_at is None) is (lifetime is None)
    assert new.expires_at is None or lifetime is None or is_near(new.expires_at, now + lifetime)
    assert [Api(key).get("/pets").status_code for key in (old_text, text)] == [200, 200]


def is_near(actual: datetime, expected: datetime) -> bool:
    return timedelta(0) <= actual - expected < timedelta(minutes=1)


@pytest.mark.parametrize("state", ["revoked", "expired"])
def test_key_that_is_no_longer_active_is_not_rotated(issue: Issue, state: str) -> None:
    key, text = issue()
    key.rotate(by=OPERATOR, overlap=timedelta(0))
    assert Api(text).get("/pets").json()["code"] == "expired_api_key"
    if state == "revoked":  # An expired key can be.
        key.revoke(reason="Lost", by=OPERATOR)
    assert key.get_state(timezone.now()) == state
    with pytest.raises(ValidationError, match=f"is {state}"):
        key.rotate(by=OPERATOR)
    assert key.audit_entries.filter(action="rotated").count() == 1


@COMMITTED
def test_only_one_concurrent_rotation_succeeds() -> None:
    account = Account.objects.create(name="Acme Pets", plan_id=PlanCode.FREE)
    old, _ = ApiKey.objects.issue(account, by=OPERATOR)

    def rotate() -> str:
        try:
            return ApiKey.objects.get(pk=old.pk).rotate(by=OPERATOR)[0].public_id
        except ValidationError as error:
            return error.messages[0]

    results = run_concurrently(*[rotate] * 8)
    new = ApiKey.objects.exclude(pk=old.pk).get()
    assert sorted(results) == sorted([new.public_id] + 7 * [
        f"Key {old.public_id} has already been rotated to {new.public_id}."
    ])  # fmt: skip


# --- Expiry, revocation and history ---------------------------------------------------------------


def test_key_expires_exactly_at_its_expiry_and_is_revoked_regardless(issue: Issue) -> None:
    end = timezone.now() + ONE_DAY
    key, _ = issue(expires_at=end)
    assert key.get_state(end - timedelta(microseconds=1)) == "active"
    assert key.get_state(end) == "expired"
    key.revoke(reason=f"  Laptop stolen{'!' * 1000} ", by=OPERATOR)
    assert key.get_state(end - ONE_DAY) == "revoked"
    assert key.revoked_at is not None
    assert is_near(key.revoked_at, end - ONE_DAY)
    assert key.revoked_reason == "Laptop stolen".ljust(255, "!")
    assert issue()[0].get_state(timezone.now() + 36_500 * ONE_DAY) == "active"


def test_key_is_revoked_only_once_with_a_reason_and_alone(issue: Issue) -> None:
    key, _ = issue()
    _, other = issue()
    for reason in ("", "  "):
        with pytest.raises(ValidationError, match="Say why"):
            key.revoke(reason=reason, by=OPERATOR)
    new, replacement = key.rotate(by=Actor("ann"))
    key.revoke(reason="Lost", by=Actor("bob"))
    with pytest.raises(ValidationError, match="is already revoked"):
        key.revoke(reason="Found", by=OPERATOR)
    assert get_history(key) == [
        ("issued", "tests", ""),
        ("rotated", "ann", f"Replaced by {new.public_id}."),
        ("revoked", "bob", "Lost"),
    ]
    assert get_history(new) == [("issued", "ann", "")]
    key.refresh_from_db()
    assert key.revoked_reason == "Lost"
    assert [Api(text).get("/pets").status_code for text in (other, replacement)] == [200, 200]


def test_history_outlives_the_key_and_its_actor(account: Account) -> None:
    ann = User.objects.create_user("ann")
    key, _ = ApiKey.objects.issue(account, by=Actor(ann.username, ann.pk))
    assert key.audit_entries.get().actor_id == ann.pk
    ann.delete()
    key.delete()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor_name, entry.object_text) == ("issued", "ann", key.public_id)


# --- The database --------------------------------------------------------------------------------

EARLY = datetime(2020, 1, 1, tzinfo=UTC)


def test_database_rejects_a_key_with_invalid_values(issue: Issue) -> None:
    key, _ = issue()
    invalid: list[dict[str, Any]] = [
        {"mode": "prod"}, {"mode": ""}, {"scopes": ""}, {"scopes": "pets:fly"},
        {"scopes": "pets:write pets:read"}, {"scopes": "pets:read  pets:write"}, {"expires_at": EARLY},
        {"created_at": EARLY, "expires_at": EARLY}, {"revoked_at": EARLY}, {"revoked_reason": "Lost"},
        {"pepper_number": -1}, {"digest": None}, {"account_id": None},
    ]  # fmt: skip
    for values in invalid:
        with pytest.raises(IntegrityError), transaction.atomic():
            ApiKey.objects.filter(pk=key.pk).update(**values)


def test_public_ids_and_replacements_are_unique_in_the_database(issue: Issue, account: Account) -> None:
    old, other = issue()[0], issue()[0]
    old.rotate(by=OPERATOR)
    duplicate = Account(name="Other", plan_id="free", public_id=account.public_id)
    rejected: list[Callable[[], object]] = [
        lambda: ApiKey.objects.filter(pk=other.pk).update(rotated_from=old),
        lambda: ApiKey.objects.filter(pk=other.pk).update(public_id=old.public_id),
        lambda: Account.objects.bulk_create([duplicate]),
    ]
    for write in rejected:
        with pytest.raises(IntegrityError), transaction.atomic():
            write()


def test_audit_trail_rejects_unknown_actions_of_a_key(issue: Issue) -> None:
    key, _ = issue()
    with pytest.raises(ValueError, match="lent"):
        audit.record(OPERATOR, key, "lent")
