"""The history of a key on its page, and the list of all keys of an account."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.models import Account, Actor, ApiKey
from accounts.portal import key_views
from accounts.portal.history import FORMER_MEMBER, STAFF
from tests.conftest import OPERATOR
from tests.support.members import member_of
from tests.support.staff import member_of as staff_of
from tests.support.staff import page_url, signed_in, superuser

SECRET = "secret-of-staff"


def url(account: Account, key: Any = "") -> str:
    return f"/account/{account.public_id}/keys/{f'{key}/' if key else ''}"


@pytest.fixture
def by_kim(kim: Client) -> Actor:
    user = User.objects.get(username="kim")
    return Actor(user.username, user.pk)


def test_history_names_members_not_staff(kim: Client, account: Account, by_kim: Actor, boss: User) -> None:
    key, _ = ApiKey.objects.issue(account, name="Shop", by=by_kim)
    key.narrow(key_scopes=["pets:read"], allowed_networks=["10.0.0.0/8"], reason="Reads only", by=by_kim)
    key.narrow(expires_at=timezone.now() + timedelta(days=2), reason=SECRET, by=Actor("boss", boss.pk))
    left = User.objects.create_user("former")
    key.revoke(reason="Leaked", by=Actor("former", left.pk))
    page = kim.get(url(account, key))
    assert [(entry.title, entry.actor, entry.reason) for entry in page.context["history"]] == [
        ("Revoked", FORMER_MEMBER, "Leaked"), ("Restricted", STAFF, ""),
        ("Restricted", "kim", "Reads only"), ("Issued", "kim", ""),
    ]  # fmt: skip
    assert page.context["history"][2].changes == [
        "Scopes: pets:read pets:write orders:read orders:write events:read → pets:read",
        "Networks: every address → 10.0.0.0/8",
    ]
    assert page.context["history"][1].changes[0].startswith("Expires: never → 20")
    for text in (SECRET, "boss", "Narrow", "narrow "):
        assert text not in page.text


def test_history_names_no_one_for_what_they_did_as_staff(
    account: Account, kim: Client, key: ApiKey
) -> None:
    former = staff_of("Support")
    by_former = Actor("support", former.pk)
    key.narrow(key_scopes=["pets:read"], reason=SECRET, by=by_former)
    signed_in(superuser()).post(page_url(former, "remove_from_staff"), {"reason": "Leaves"})
    key.revoke(reason="Leaked", by=by_former)
    page = kim.get(url(account, key))
    assert [(entry.actor, entry.reason) for entry in page.context["history"]][:2] == [
        (FORMER_MEMBER, "Leaked"), (STAFF, ""),
    ]  # fmt: skip


def test_member_who_is_staff_is_not_named(account: Account, kim: Client, by_kim: Actor) -> None:
    key, _ = ApiKey.objects.issue(account, by=by_kim)
    User.objects.filter(username=by_kim.name).update(is_staff=True)
    assert member_of(account, name="ann").get(url(account, key)).context["creator"] == STAFF


def test_ended_keys_are_paginated(
    kim: Client, account: Account, issue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_views, "INACTIVE_PER_PAGE", 2)
    keys = [issue()[0] for _ in range(4)][::-1]
    for key in keys[1:]:
        key.revoke(reason="x", by=OPERATOR)
    first, second = kim.get(url(account)), kim.get(url(account), {"before": keys[2].pk})
    for page, active, inactive in ((first, keys[:1], keys[1:3]), (second, [], keys[3:])):
        assert [row[0] for row in page.context["active"]] == active
        assert [row[0] for row in page.context["inactive"]] == inactive
    assert (first.context["next"], second.context["next"]) == (keys[2].pk, None)
    for bad in ("x", "-1", "9" * 30, "0"):
        assert kim.get(url(account), {"before": bad}).status_code == 200
