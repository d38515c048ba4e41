"""Suspended accounts: keys are rejected immediately, use no quota, and work again afterwards (D45)."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from prometheus_client import REGISTRY

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectionReason
from accounts.models import Account, ApiKey, DailyUsage, KeyStanding, QuotaUsage
from accounts.quota.limits import SECOND
from accounts.usage import write_behind
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR, Api, Issue
from tests.support.quota import Sender, minute

PATHS = [
    ("GET", "/pets"),
    ("GET", "/account"),
    ("POST", "/pets"),
    ("GET", "/x"),
    ("DELETE", "/store/orders/1"),
]


@pytest.fixture
def suspended(account: Account, key: ApiKey) -> Account:
    """An account that is suspended, with a key."""
    account.suspend(reason="Unpaid", by=OPERATOR)
    return account


# --- The response ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_suspended_account_gets_403_with_a_help_link(
    suspended: Account, api: Api, settings: Any, method: str, path: str
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 300
    response = api(method, path, {} if method == "POST" else None)
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (403, 403, "account_suspended")
    assert "Unpaid" not in response.text
    assert '/docs/errors#account_suspended>; rel="help"' in response["Link"]
    assert response["X-RateLimit-Limit"] == "300"  # Of the client's address.


def test_suspended_request_is_free_and_neither_a_use_nor_a_strike(suspended: Account, api: Api) -> None:
    for _ in range(20):
        api.get("/pets")
    write_behind.recorder.write()
    for records in (QuotaUsage, DailyUsage, KeyStanding):
        assert not records.objects.exists()
    assert ApiKey.objects.get().last_used_at is None


def test_suspended_requests_count_for_the_client_address(
    suspended: Account, api: Api, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5
    assert [api.get("/pets").status_code for _ in range(7)] == [403] * 5 + [429] * 2


def test_suspension_is_checked_before_the_scope(account: Account, issue: Issue) -> None:
    _, text = issue(key_scopes=["events:read"])
    account.suspend(reason="Unpaid", by=OPERATOR)
    assert Api(text).get("/pets").json()["code"] == "account_suspended"


def test_other_accounts_are_not_affected_by_a_suspension(suspended: Account, issue: Issue) -> None:
    _, text = issue(of=Account.objects.create(name="Other", plan_id="free"))
    assert Api(text).get("/pets").status_code == 200


def test_rejected_keys_are_counted_by_reason(suspended: Account, api: Api) -> None:
    def count() -> float:
        return REGISTRY.get_sample_value("petstore_keys_refused_total", {"why": "suspended"}) or 0

    before = count()
    api.get("/pets")
    assert count() == before + 1


# --- In the quota store ---------------------------------------------------------------------------


def test_suspension_and_its_lifting_take_effect_with_the_next_request(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20)
    sender.add_key()
    assert minute(sender.send()).used == 1
    sender.account.suspend(reason="Unpaid", by=OPERATOR)
    for key in (0, 1):
        assert sender.admit(key).rejection is sender.peek(key).rejection is KeyRejectionReason.SUSPENDED
    sender.account.lift_suspension(reason="Paid", by=OPERATOR)
    assert sender.peek(1).rejection is None
    assert minute(sender.send()).used == 2


def test_wrong_secret_does_not_reveal_a_suspension(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20)
    sender.account.suspend(reason="Unpaid", by=OPERATOR)
    sender.texts.append(key_format.generate("live", sender.account.public_id).text)
    assert sender.admit(1).rejection is KeyRejectionReason.UNKNOWN


def test_errors_of_the_key_precede_the_suspension(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20, now=round(timezone.now().timestamp() * SECOND))
    for _ in range(2):
        sender.add_key()
    sender.account.suspend(reason="Unpaid", by=OPERATOR)
    sender.keys[0].revoke(reason="Leaked", by=OPERATOR)
    sender.keys[1].expires_at = timezone.now() + timedelta(hours=1)
    sender.keys[1].save()
    sender.keys[2].narrow(allowed_networks=["203.0.113.0/24"], by=OPERATOR)
    sender.wait(2 * 60 * 60)
    assert sender.admit(0).rejection is KeyRejectionReason.REVOKED
    assert sender.admit(1).rejection is KeyRejectionReason.EXPIRED
    assert sender.admit(2).rejection is KeyRejectionReason.NETWORK_NOT_ALLOWED


# --- Actions -------------------------------------------------------------------------------------


def trail(account: Account) -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.for_object(account).order_by("id")
    return list(entries.values_list("action", "actor_name", "reason"))


def test_suspension_and_lifting_are_in_the_audit_trail_with_reasons(suspended: Account) -> None:
    assert suspended.suspended_reason == "Unpaid"
    suspended.lift_suspension(reason="Paid", by=OPERATOR)
    assert (suspended.suspended_at, suspended.suspended_reason) == (None, "")
    assert trail(suspended) == [
        ("suspended", "tests", "Unpaid"),
        ("suspension_lifted", "tests", "Paid"),
    ]
    entry = AuditEntry.objects.for_object(suspended).earliest("id")
    assert entry.after["suspended_reason"] == "Unpaid"
    assert entry.before["suspended_at"] is None


@pytest.mark.parametrize("verb", ["suspend", "lift_suspension"])
def test_suspension_and_lifting_need_a_reason(suspended: Account, verb: str) -> None:
    with pytest.raises(ValidationError, match="Say why"):
        getattr(suspended, verb)(reason="  ", by=OPERATOR)


def test_account_is_suspended_and_lifted_only_once(suspended: Account) -> None:
    with pytest.raises(ValidationError, match="Acme Pets is already suspended"):
        suspended.suspend(reason="Again", by=OPERATOR)
    suspended.lift_suspension(reason="Paid", by=OPERATOR)
    with pytest.raises(ValidationError, match="Acme Pets is not suspended"):
        suspended.lift_suspension(reason="Again", by=OPERATOR)
    assert len(trail(suspended)) == 2


def test_plan_change_does_not_lift_a_suspension(account: Account, api: Api) -> None:
    stale = Account.objects.get(pk=account.pk)
    account.suspend(reason="Unpaid", by=OPERATOR)
    stale.assign("pro")  # type: ignore[arg-type]
    assert api.get("/pets").json()["code"] == "account_suspended"


def test_database_rejects_a_suspension_without_a_reason(account: Account) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Account.objects.update(suspended_at=timezone.now())
