"""Customers can't fill the audit trail, which is never pruned: each act has a daily limit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.models import Account, ApiKey, Membership, Role
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.members import member_of, sign_in
from tests.support.staff import PASSWORD
from tests.support.two_factor import add_app


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/account/security/recovery-codes/new/", {}),
        ("/account/security/app/off/", {}),
        ("/account/password/", {"oldpassword": "wrong"}),
        ("/account/security/passkeys/add/", {}),
    ],
)
def test_changes_of_credentials_are_limited_per_user(path: str, form: dict[str, str]) -> None:
    kim, ann = (User.objects.create_user(name, password=PASSWORD) for name in ("kim", "ann"))
    for user in (kim, ann):
        add_app(user)
    client, other = sign_in(kim), sign_in(ann)
    *others, last = post_all(client, path, [form] * 4)
    assert 429 not in others
    assert last == 429
    assert AuditEntry.objects.filter(action="recovery_codes").count() <= 3
    assert other.post(path, form).status_code != 429
