"""Suspended accounts: keys are rejected immediately, use no quota, and work again afterwards (D45)."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from prometheus_client import REGISTRY

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectionReason
from accounts.models import Account, ApiKey, DailyUsage, QuotaUsage, RateLimitState
from accounts.quota.limits import SECOND
from accounts.usage import write_behind
from petstore import compatibility
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR, Api, Issue
from tests.support.customers import expire
from tests.support.quota import Sender, find_rejection, minute


@pytest.fixture
def suspended(account: Account, key: ApiKey) -> Account:
    """An account that is suspended, with a key that lacks most scopes."""
    ApiKey.objects.filter(pk=key.pk).update(scopes="events:read")
    account.suspend(reason="Unpaid", by=OPERATOR)
    return account


def test_suspended_account_gets_403_with_a_help_link(suspended: Account, api: Api, settings: Any) -> None:
    settings.ANONYMOUS_PER_MINUTE = 300
    for method, path in (
        ("GET", "/pets"), ("GET", "/account"), ("POST", "/pets"), ("GET", "/x"),
        ("DELETE", "/store/orders/1"),
    ):  # fmt: skip
        response = api(method, path, {} if method == "POST" else None)
        body = response.json()
        assert (response.status_code, body["status"], body["code"]) == (403, 403, "account_suspended")
        assert "Unpaid" not in response.text
        assert '/docs/errors#account_suspended>; rel="help"' in response["Link"]
        assert response["X-RateLimit-Limit"] == "300"  # Of the client's address.


def test_suspended_request_is_free_and_neither_a_use_nor_a_strike_but_counts_for_its_address(
    suspended: Account, api: Api, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 20
    assert [api.get("/pets").status_code for _ in range(22)] == [403] * 20 + [429] * 2
    write_behind.recorder.write()
    for records in (QuotaUsage, DailyUsage, RateLimitState):
        assert not records.objects.exists()
    assert ApiKey.objects.get().last_used_at is None


def test_other_accounts_are_not_affected_by_a_suspension(suspended: Account, issue: Issue) -> None:
    _, text = issue(of=Account.objects.create(name="Other", plan_id="free"))
    assert Api(text).get("/pets").status_code == 200


def test_rejected_keys_are_counted_by_reason(suspended: Account, api: Api) -> None:
    series = {"petstore_keys_rejected_total": "reason", compatibility.KEYS_REJECTED_METRIC: "why"}

    def count() -> list[float]:
        return [REGISTRY.get_sample_value(name, {series[name]: "suspended"}) or 0 for name in series]

    before = count()
    api.get("/pets")
    assert count() == [value + 1 for value in before]


def test_suspension_and_its_lifting_take_effect_with_the_next_request(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20)
    sender.add_key()
    assert minute(sender.send()).used == 1
    sender.account.suspend(reason="Unpaid", by=OPERATOR)
    for key in (0, 1):
        for send in (sender.admit, sender.peek):
            assert find_rejection(send, key) is KeyRejectionReason.SUSPENDED
    sender.account.lift_suspension(reason="Paid", by=OPERATOR)
    sender.peek(1)
    assert minute(sender.send()).used == 2


def test_errors_of_the_key_precede_the_suspension(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20, now=round(timezone.now().timestamp() * SECOND))
    for _ in range(2):
        sender.add_key()
    sender.account.suspend(reason="Unpaid", by=OPERATOR)
    sender.keys[0].revoke(reason="Leaked", by=OPERATOR)
    expire(sender.keys[1])
    sender.keys[2].narrow(allowed_networks=["203.0.113.0/24"], by=OPERATOR)
    sender.texts.append(key_format.generate("live", sender.account.public_id).text)
    for index, name in enumerate(("REVOKED", "EXPIRED", "NETWORK_NOT_ALLOWED", "UNKNOWN")):
        reasons = [find_rejection(send, index) for send in (sender.admit, sender.peek)]
        assert reasons == [KeyRejectionReason[name]] * 2


def test_account_is_suspended_and_lifted_only_once_with_a_recorded_reason(suspended: Account) -> None:
    for verb in (suspended.suspend, suspended.lift_suspension):
        with pytest.raises(ValidationError, match="Say why"):
            verb(reason="  ", by=OPERATOR)
    with pytest.raises(ValidationError, match="Acme Pets is already suspended"):
        suspended.suspend(reason="Again", by=OPERATOR)
    assert suspended.suspended_reason == "Unpaid"
    suspended.lift_suspension(reason="Paid", by=OPERATOR)
    assert (suspended.suspended_at, suspended.suspended_reason) == (None, "")
    with pytest.raises(ValidationError, match="Acme Pets is not suspended"):
        suspended.lift_suspension(reason="Again", by=OPERATOR)
    entries = AuditEntry.objects.for_object(suspended).order_by("id")
    assert list(entries.values_list("action", "actor_name", "reason")) == [
        ("suspended", "tests", "Unpaid"), ("suspension_lifted", "tests", "Paid"),
    ]  # fmt: skip
    assert entries[0].after["suspended_reason"] == "Unpaid"


def test_plan_change_does_not_lift_a_suspension(account: Account, api: Api) -> None:
    stale = Account.objects.get(pk=account.pk)
    account.suspend(reason="Unpaid", by=OPERATOR)
    stale.assign("pro")  # type: ignore[arg-type]
    assert api.get("/pets").json()["code"] == "account_suspended"


def test_database_rejects_a_suspension_without_a_reason(account: Account) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Account.objects.update(suspended_at=timezone.now())
