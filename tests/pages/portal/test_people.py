"""The page People of an account: members, roles and invitations."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import Account, Event, Invitation, Membership, OutboxEvent, Role
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.members import sign_in
from tests.support.staff import PASSWORD
from tests.support.two_factor import add_app

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
        response = sign_in(member.user).get(page)
        text = response.text
        assert all(name in text for name in ("ann", "dev", "rea"))
        second_factors = {has for _, _, has in response.context["members"]}
        assert second_factors == ({False} if is_owner else {None})
        assert ("kim@example.com" in text) == is_owner
        assert ("Create a link" in text) == is_owner
        assert ("Remove ann" in text or "Remove dev" in text) == is_owner
        assert "dev@example.com" not in text  # Addresses of members are private.


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
    for role in ("", "admin", "OWNER"):
        assert client.post(f"{page}{dev.public_id}/role/", {"role": role}).status_code == 400
    assert roles(account) == {"ann": "owner", "dev": "developer", "rea": "reader"}
    for url, message in changes.items():
        assert message in client.post(url, {"role": "owner"}, follow=True).text
    assert roles(account) == {"ann": "owner", "dev": "owner"}
    assert not account.invitations.open().exists()
    actions = AuditEntry.objects.filter(actor_name="ann").values_list("action", flat=True)
    assert {"member_changed", "member_removed", "invitation_withdrawn"} <= set(actions)


def test_any_member_may_leave(account: Account, dev: Membership, reader: Membership, page: str) -> None:
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
        ({"email": "a@" + "\u00fc" * 60 + ".example"}, "Enter a valid email address."),
        ({"role": "admin"}, "Select a valid choice."),
        ({"email": "KIM@example.com"}, "This address already has an invitation."),
    ):
        assert text in client.post(page, INVITATION | values).text
    assert Invitation.objects.count() == 1


# --- Second factor -----------------------------------------------------------------------------------


def require(client: Client, page: str, *, required: bool = True) -> Any:
    return client.post(f"{page}second-factor/", {"required": "on"} if required else {}, follow=True)


def test_owner_requires_a_second_factor_and_no_longer(ann: Membership, dev: Membership, page: str) -> None:
    add_app(ann.user)
    owner, client = sign_in(ann.user), sign_in(dev.user)
    assert "A second factor is now required." in require(owner, page).text
    assert client.get(page).status_code == 403
    assert "no longer required" in require(owner, page, required=False).text
    assert client.get(page).status_code == 200
    entries = AuditEntry.objects.for_object(ann.account).filter(action="changed")
    assert [entry.after for entry in entries] == [
        {"requires_second_factor": False}, {"requires_second_factor": True},
    ]  # fmt: skip


def test_owner_without_a_second_factor_cannot_require_one(ann: Membership, page: str) -> None:
    client = sign_in(ann.user)
    assert "for yourself first" in require(client, page).text
    link = '<a class="alone" href="/account/security/">Set one up for yourself first</a>'
    assert link in client.get(page).text
    ann.account.refresh_from_db()
    assert not ann.account.requires_second_factor


def test_suspended_account_cannot_lift_the_requirement(ann: Membership, page: str) -> None:
    add_app(ann.user)
    ann.account.suspend(reason="Unpaid", by=OPERATOR)
    client = sign_in(ann.user)
    assert "is now required" in require(client, page).text
    assert "not possible while" in require(client, page, required=False).text
