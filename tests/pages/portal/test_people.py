"""The page People of an account: members, roles and invitations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import Account, ApiKey, Event, Invitation, Membership, OutboxEvent, Role
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.members import sign_in
from tests.support.staff import PASSWORD
from tests.support.two_factor import add_app, add_recovery_codes

INVITATION = {"email": "new@example.com", "role": "developer"}


def join(account: Account, name: str, role: Role) -> Membership:
    user = User.objects.create_user(name, email=f"{name}@example.com", password=PASSWORD)
    return Membership.objects.create(account=account, user=user, role=role)


@pytest.fixture
def ann(account: Account) -> Membership:
    return join(account, "ann", Role.OWNER)


@pytest.fixture
def dev(account: Account, ann: Membership) -> Membership:
    return join(account, "dev", Role.DEVELOPER)


@pytest.fixture
def reader(account: Account, ann: Membership) -> Membership:
    return join(account, "rea", Role.READER)


@pytest.fixture
def invitation(account: Account, ann: Membership) -> Invitation:
    invitation, _ = Invitation.objects.invite(account, email="kim@example.com", role="reader", by=OPERATOR)
    return invitation


@pytest.fixture
def page(account: Account) -> str:
    return f"/account/{account.public_id}/people/"


@pytest.fixture
def other_account() -> Account:
    return Account.objects.create(name="Other Pets", plan_id="free")


def roles(account: Account) -> dict[str, str]:
    return dict(account.memberships.values_list("user__username", "role"))


def test_owner_invites_and_sees_the_link_once(
    account: Account, ann: Membership, page: str, capfd: pytest.CaptureFixture[str]
) -> None:
    client = sign_in(ann.user)
    (link,) = re.findall(r'<code id="link">(.*?)</code>', client.post(page, INVITATION).text)
    invitation, token = Invitation.objects.get(), link.split("/")[-2]
    assert Invitation.objects.find(token) == invitation
    assert (invitation.account, invitation.email, invitation.role) == (account, *INVITATION.values())
    text = client.get(page).text
    assert "new@example.com" in text
    entry = AuditEntry.objects.get(action="member_invited")
    assert (entry.actor_name, entry.object_id, entry.address) == ("ann", str(account.pk), "127.0.0.1")
    recorded = repr([*AuditEntry.objects.values(), *OutboxEvent.objects.values(), *Event.objects.values()])
    assert "new@example.com" not in recorded
    assert token not in text + recorded + repr(dict(client.session)) + "".join(capfd.readouterr())
    Client().post(link, {"username": "new", "password1": PASSWORD, "password2": PASSWORD})
    assert roles(account) == {"ann": "owner", "new": "developer"}


def test_only_owners_see_addresses_and_owner_actions(
    ann: Membership, dev: Membership, reader: Membership, invitation: Invitation, page: str
) -> None:
    for member, is_owner in ((ann, True), (dev, False), (reader, False)):
        text = sign_in(member.user).get(page).text
        assert all(name in text for name in ("ann", "dev", "rea"))
        assert ("kim@example.com" in text) == is_owner
        assert ("Create a link" in text) == is_owner
        assert ("Remove ann" in text or "Remove dev" in text) == is_owner
        assert ("Leave Acme Pets" in text) != is_owner  # Ann is the only owner.
        assert "dev@example.com" not in text  # Addresses of members are private.


def test_only_owner_is_offered_no_change_that_fails(ann: Membership, dev: Membership, page: str) -> None:
    text = sign_in(ann.user).get(page).text
    assert "You are the only owner." in text
    assert "Change role of ann" not in text
    dev.change_role(Role.OWNER, by=OPERATOR)
    text = sign_in(ann.user).get(page).text
    assert "Change role of ann" in text
    assert "Leave Acme Pets" in text


def test_owner_changes_roles_removes_and_withdraws(
    ann: Membership, dev: Membership, reader: Membership, invitation: Invitation, page: str
) -> None:
    account, client = ann.account, sign_in(ann.user)
    changes = {
        f"{page}{dev.public_id}/role/": "The role is changed.",
        f"{page}{reader.public_id}/remove/": "The member is removed.",
        f"{page}{invitation.public_id}/withdraw/": "The invitation is withdrawn.",
    }
    for url in changes:
        assert client.get(url)["Location"] == page  # Does nothing.
    assert roles(account) == {"ann": "owner", "dev": "developer", "rea": "reader"}
    for url, message in changes.items():
        assert message in client.post(url, {"role": "owner"}, follow=True).text
    assert roles(account) == {"ann": "owner", "dev": "owner"}
    assert not account.invitations.open().exists()
    actions = AuditEntry.objects.filter(actor_name="ann").values_list("action", flat=True)
    assert {"member_changed", "member_removed", "invitation_withdrawn"} <= set(actions)


def get_urls(account: Account, member: Membership, invitation: Invitation) -> list[str]:
    page = f"/account/{account.public_id}/people/"
    rows = (f"{member.public_id}/role/", f"{member.public_id}/remove/", f"{invitation.public_id}/withdraw/")
    return [page, *(f"{page}{row}" for row in rows)]


def test_insufficient_role_gets_403_with_the_required_role(
    account: Account, ann: Membership, dev: Membership, invitation: Invitation
) -> None:
    client = sign_in(dev.user)
    for role in ("developer", "reader"):
        Membership.objects.filter(pk=dev.pk).update(role=role)
        for url in get_urls(account, ann, invitation):
            response = client.post(url, INVITATION)
            assert (response.status_code, "account owner" in response.text) == (403, True)
            assert "kim@example.com" not in response.text
        assert roles(account) == {"ann": "owner", "dev": role}
    assert account.invitations.open().count() == 1


def test_rows_of_another_account_are_not_found_under_the_own_account(
    account: Account, other_account: Account, ann: Membership, dev: Membership, invitation: Invitation
) -> None:
    eve = join(other_account, "eve", Role.OWNER)
    client = sign_in(eve.user)
    own = f"/account/{other_account.public_id}/people/"
    for url in get_urls(account, dev, invitation)[1:]:
        assert client.post(own + url.partition("/people/")[2], INVITATION).status_code == 404
    assert client.post(f"{own}{eve.public_id}/withdraw/").status_code == 404
    assert client.post(f"{own}{eve.public_id}/delete/").status_code == 404
    assert roles(account) == {"ann": "owner", "dev": "developer"}
    assert account.invitations.open().count() == 1


def test_members_of_any_role_may_leave(
    account: Account, dev: Membership, reader: Membership, page: str
) -> None:
    for member in (dev, reader):
        client = sign_in(member.user)
        client.get(f"{page}leave/")
        assert member.user.username in roles(account)
        assert client.post(f"{page}leave/")["Location"] == "/account/"
        assert client.get(page).status_code == 404
    assert roles(account) == {"ann": "owner"}


def test_invalid_invitation_is_explained(ann: Membership, invitation: Invitation, page: str) -> None:
    client = sign_in(ann.user)
    for values, text in (
        ({"email": "no address"}, "Enter a valid email address."),
        ({"email": "a@" + "\u00fc" * 60 + ".example"}, "Enter a valid email address."),
        ({"email": ""}, "This field is required."),
        ({"role": "admin"}, "Select a valid choice."),
        ({"email": "KIM@example.com"}, "This address already has an invitation."),
    ):
        assert text in client.post(page, INVITATION | values).text
    assert Invitation.objects.count() == 1


def test_unknown_role_is_rejected(account: Account, ann: Membership, dev: Membership, page: str) -> None:
    client = sign_in(ann.user)
    for role in ("", "admin", "OWNER"):
        assert client.post(f"{page}{dev.public_id}/role/", {"role": role}).status_code == 400
    assert roles(account)["dev"] == "developer"


# --- Second factor -----------------------------------------------------------------------------------


def require(client: Client, page: str, *, required: bool = True) -> Any:
    return client.post(f"{page}second-factor/", {"required": "on"} if required else {}, follow=True)


def test_owners_see_who_has_a_second_factor(
    ann: Membership, dev: Membership, reader: Membership, page: str
) -> None:
    add_app(dev.user)
    add_recovery_codes(reader.user, "code")  # Not a second factor by themselves.
    shown = {row.user.username: has for row, _, has in sign_in(ann.user).get(page).context["members"]}
    assert shown == {"ann": False, "dev": True, "rea": False}
    assert "Second factor:" not in sign_in(dev.user).get(page).text


def test_required_second_factor_closes_the_pages_to_members_without_one(
    ann: Membership, dev: Membership, page: str, key: ApiKey
) -> None:
    add_app(ann.user)
    owner, client, account = sign_in(ann.user), sign_in(dev.user), ann.account
    assert "A second factor is now required." in require(owner, page).text
    home = f"/account/{account.public_id}/"
    for path in (
        "",
        "keys/",
        f"keys/{key}/",
        "requests/",
        "orders/",
        "people/",
        "usage.csv",
        "keys/issue/",
    ):
        response = client.get(f"{home}{path}")
        assert response.status_code == 403
        assert "Second factor required" in response.text
        assert key.public_id not in response.text
    assert client.post(f"{home}keys/{key}/revoke/", {"reason": "x"}).status_code == 403
    add_app(dev.user)
    assert client.get(f"{home}keys/").status_code == 200
    assert "no longer required" in require(owner, page, required=False).text
    assert sign_in(ann.user).get(home).status_code == 200
    entries = AuditEntry.objects.for_object(account).filter(action="changed")
    assert [entry.after for entry in entries] == [
        {"requires_second_factor": False}, {"requires_second_factor": True},
    ]  # fmt: skip


def test_owner_without_a_second_factor_cannot_require_one(ann: Membership, page: str) -> None:
    client = sign_in(ann.user)
    assert "for yourself first" in require(client, page).text
    assert (
        '<a class="alone" href="/account/security/">Set one up for yourself first</a>'
        in client.get(page).text
    )
    ann.account.refresh_from_db()
    assert not ann.account.requires_second_factor


def test_only_owners_require_a_second_factor(dev: Membership, reader: Membership, page: str) -> None:
    for member in (dev, reader):
        add_app(member.user)
        response = require(sign_in(member.user), page)
        assert response.status_code == 403
        assert "Ask an account owner." in response.text
    assert sign_in(dev.user).get(f"{page}second-factor/").status_code == 403


def test_suspended_account_cannot_lift_the_requirement(ann: Membership, page: str) -> None:
    add_app(ann.user)
    ann.account.suspend(reason="Unpaid", by=OPERATOR)
    client = sign_in(ann.user)
    assert "is now required" in require(client, page).text
    assert "not possible while" in require(client, page, required=False).text
