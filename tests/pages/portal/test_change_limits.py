"""Customers can't fill the audit trail, which is never pruned: each act has a daily limit."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.models import Account, ApiKey, Membership, Role, WebhookEndpoint
from inventory.models import Order, Pet
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.isolation import Clock
from tests.support.members import member_of, sign_in
from tests.support.staff import PASSWORD
from tests.support.two_factor import add_app


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    for module in ("petstore.sign_in.rate_limits", "accounts.portal.access"):
        monkeypatch.setattr(f"{module}.CHANGES_PER_DAY", "3/d")


def post_all(client: Client, path: str, forms: list[dict[str, Any]]) -> list[int]:
    return [client.post(path, form).status_code for form in forms]


def test_role_changes_are_limited_per_account(account: Account) -> None:
    owner, second = member_of(account), member_of(account, name="ann")
    user = User.objects.create(username="ben")
    member = Membership.objects.create(account=account, user=user, role=Role.READER)
    path = f"/account/{account.public_id}/people/{member.public_id}/"
    flips = [{"role": role} for role in ("developer", "reader") * 2]
    assert post_all(owner, f"{path}role/", flips) == [302, 302, 302, 429]
    assert second.post(f"{path}role/", flips[0]).status_code == 429
    assert AuditEntry.objects.filter(action="member_changed").count() == 3
    assert owner.post(f"{path}remove/").status_code == 302  # Power can still be taken away.
    assert not account.memberships.filter(pk=member.pk).exists()


def test_changes_of_the_required_second_factor_are_limited_per_account(account: Account) -> None:
    owner = member_of(account)
    add_app(User.objects.get())
    path = f"/account/{account.public_id}/people/second-factor/"
    assert post_all(owner, path, [{"required": "on"}, {}] * 2) == [302, 302, 302, 429]


def test_narrowings_are_limited_per_account(account: Account) -> None:
    owner = member_of(account)
    now = timezone.now()
    key, _ = ApiKey.objects.issue(account, expires_at=now + timedelta(days=9), by=OPERATOR)
    path = f"/account/{account.public_id}/keys/{key.public_id}/"
    ends = [
        {"key_scopes": key.scopes.split(), "expires_at": f"{now + timedelta(days=days):%Y-%m-%d %H:%M}"}
        for days in (8, 7, 6, 5)
    ]
    statuses = post_all(owner, f"{path}narrow/", [end | {"reason": "x"} for end in ends])
    assert statuses == [302, 302, 302, 429]
    assert owner.post(f"{path}revoke/", {"reason": "x"}).status_code == 302


def test_cancellations_are_limited_per_account_and_recorded_once(account: Account, pet: Pet) -> None:
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="key x")
    path = f"/account/{account.public_id}/orders/{order.pk}/cancel/"
    assert post_all(member_of(account), path, [{}] * 4) == [302, 302, 302, 429]
    assert AuditEntry.objects.filter(model="inventory.order").count() == 1


@pytest.mark.django_db
def test_changes_of_credentials_are_limited_per_user() -> None:
    kim, ann = (User.objects.create_user(name, password=PASSWORD) for name in ("kim", "ann"))
    for user in (kim, ann):
        add_app(user)
    client, other = sign_in(kim), sign_in(ann)
    for page, form in (
        ("security/recovery-codes/new/", {}),
        ("security/app/off/", {}),
        ("password/", {"oldpassword": "wrong"}),
        ("security/passkeys/add/", {}),
    ):
        *others, last = post_all(client, f"/account/{page}", [form] * 4)
        assert (429 in others, last) == (False, 429)
        assert other.post(f"/account/{page}", form).status_code != 429
    assert AuditEntry.objects.filter(actor_name="kim", action="recovery_codes").count() <= 3


def test_changes_of_webhooks_are_limited_but_disabling_is_not(account: Account) -> None:
    owner = member_of(account)
    endpoint = WebhookEndpoint.objects.add(account, url="https://93.184.216.34/", by=OPERATOR)
    path = f"/account/{account.public_id}/webhooks/{endpoint.public_id}/"
    form = {"overlap": "24", "url": "https://93.184.216.34/", "types": ["key"]}
    for verb in ("reveal-secret", "rotate-secret", "send-test", "change"):
        *others, last = post_all(owner, f"{path}{verb}/", [form] * 4)
        assert (429 in others, last) == (False, 429), verb
    assert owner.post(f"{path}disable/").status_code == 302


def test_readers_use_up_no_limit_of_others(account: Account) -> None:
    reader, owner = member_of(account, Role.READER, "ann"), member_of(account)
    endpoint = WebhookEndpoint.objects.add(account, url="https://93.184.216.34/", by=OPERATOR)
    attempt = endpoint.send_test(by=OPERATOR)
    page = f"/account/{account.public_id}/webhooks/{endpoint.public_id}/attempts/{attempt.pk}/"
    assert post_all(reader, page, [{}] * 4) == [403] * 4
    assert owner.post(page).status_code == 302
