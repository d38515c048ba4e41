"""Members and invitations of an account: the rules of each action and the staff pages (D46, D47)."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from accounts.models import Account, Actor, ApiKey, Invitation, Membership, OutboxEvent, Role, members
from accounts.models import WebhookEndpoint as Endpoint
from petstore.api.link_header import get_page_url
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.staff import member_of, signed_in

EMAIL = "ann@example.com"


def invite(account: Account, role: Role = Role.OWNER, email: str = EMAIL) -> Invitation:
    return Invitation.objects.invite(account, email=email, role=role, by=OPERATOR)[0]


def add_member(account: Account, name: str, role: Role = Role.OWNER) -> Membership:
    user = User.objects.create(username=name)
    return invite(account, role, f"{name}@example.com").accept(user, by=OPERATOR)


def account_page(account: Account) -> str:
    return f"/admin/accounts/account/{account.pk}/"


def test_member_keeps_the_id_of_the_invitation_in_events_without_personal_data(account: Account) -> None:
    owner = add_member(account, "ann")
    member = add_member(account, "ben", Role.READER)
    member.remove(by=OPERATOR, reason="Left")
    events = OutboxEvent.objects.filter(type__startswith="member.").order_by("pk")
    assert {event.account_id for event in events} == {account.pk}
    ids = {"id": owner.public_id, "role": "owner"}, {"id": member.public_id, "role": "reader"}
    expected = [(f"member.{kind}", each) for each in ids for kind in ("invited", "joined")]
    sent = [(event.type, orjson.loads(event.data)["member"]) for event in events]
    assert sent == [*expected, ("member.removed", ids[1])]
    stored = repr(list(OutboxEvent.objects.values())) + repr(list(AuditEntry.objects.values()))
    assert "@example.com" not in stored
    trail = AuditEntry.objects.for_object(account).order_by("pk")
    names = ["member_invited", "member_joined"] * 2 + ["member_removed"]
    assert [entry.action for entry in trail if entry.action.startswith("member")] == names


def test_account_with_members_keeps_an_owner(account: Account) -> None:
    owner = add_member(account, "ann")
    reader = add_member(account, "ben", Role.READER)
    for action in (owner.remove, lambda **by: owner.change_role(Role.READER, **by)):
        with pytest.raises(ValidationError, match="is the only owner of Acme Pets"):
            action(by=OPERATOR)
    reader.change_role(Role.OWNER, by=OPERATOR)
    User.objects.filter(username="ben").update(is_active=False)
    with pytest.raises(ValidationError, match="only owner"):  # Inactive users do not count.
        owner.remove(by=OPERATOR)
    reader.remove(by=OPERATOR)
    for action in (reader.remove, lambda **by: reader.change_role(Role.READER, **by)):
        with pytest.raises(ValidationError, match="no longer a member"):
            action(by=OPERATOR)
    owner.remove(by=OPERATOR)  # The last member may leave.
    assert not account.memberships.exists()


def test_first_member_is_an_owner(account: Account) -> None:
    with pytest.raises(ValidationError, match="has no owner"):
        invite(account, Role.DEVELOPER)
    owner, reader = invite(account), invite(account, Role.READER, "ben@example.com")
    user = User.objects.create(username="ben")
    with pytest.raises(ValidationError, match="has to join first"):
        reader.accept(user, by=OPERATOR)
    owner.accept(User.objects.create(username="ann"), by=OPERATOR)
    assert reader.accept(user, by=OPERATOR).role == Role.READER


LOSSES: dict[str, Callable[[User], Any]] = {
    "left": lambda author: User.objects.filter(pk=author.pk).update(is_staff=False),
    "another role": lambda author: author.groups.set(Group.objects.filter(name="Viewer")),
    "role without it": lambda author: author.groups.get().permissions.clear(),
    "inactive": lambda author: User.objects.filter(pk=author.pk).update(is_active=False),
    "deleted": lambda author: author.delete(),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_invitation_by_former_staff_is_void(account: Account, lose: Callable[[User], Any]) -> None:
    author = member_of("Support")
    by = Actor("support", author.pk)
    invitation, link = Invitation.objects.invite(account, email=EMAIL, role=Role.OWNER, by=by)
    assert Invitation.objects.find(link.split("/")[-2]) == invitation
    lose(author)
    assert Invitation.objects.find(link.split("/")[-2]) is None
    with pytest.raises(ValidationError, match="no longer valid"):
        invitation.accept(User.objects.create(username="thief"), by=OPERATOR)


@pytest.mark.parametrize("loss", ["role", "membership", "sign-in"])
def test_invitation_by_a_former_owner_is_void(account: Account, loss: str) -> None:
    add_member(account, "ann")
    rival = add_member(account, "ben")
    create = partial(Invitation.objects.invite, account, role=Role.OWNER)
    own, _ = create(email="new@example.com", by=Actor("ben", rival.user_id))
    other, _ = create(email="other@example.com", by=OPERATOR)
    if loss == "role":
        rival.change_role(Role.DEVELOPER, by=OPERATOR)
    elif loss == "membership":
        rival.remove(by=OPERATOR)
    else:
        User.objects.filter(pk=rival.user_id).update(is_active=False)
    assert list(account.invitations.open()) == [other]
    with pytest.raises(ValidationError, match="no longer valid"):
        own.accept(rival.user, by=OPERATOR)
    if loss == "role":  # It stays void if they return.
        rival.change_role(Role.OWNER, by=OPERATOR)
    elif loss == "membership":
        Membership.objects.create(account=account, user=rival.user, role=Role.OWNER)
    assert list(account.invitations.open()) == [other]


def test_link_is_stored_only_as_a_digest(account: Account) -> None:
    invitation, link = Invitation.objects.invite(
        account, email=" Ann@Example.com", role=Role.OWNER, by=OPERATOR
    )
    assert link.startswith(get_page_url("account/join/"))
    token = link.split("/")[-2]
    assert len(token) == 43
    assert Invitation.objects.find(token) == invitation
    assert invitation.email == EMAIL
    assert invitation.expires_at - invitation.created_at == timedelta(days=7)
    assert token not in repr(list(Invitation.objects.values())) + repr(list(AuditEntry.objects.values()))


def test_expired_withdrawn_or_used_invitation_is_not_accepted(account: Account) -> None:
    add_member(account, "owner")
    expired, withdrawn, used = (invite(account, email=f"{name}@example.com") for name in ("a", "b", "c"))
    past = timezone.now() - timedelta(days=8)
    Invitation.objects.filter(pk=expired.pk).update(created_at=past, expires_at=past + timedelta(days=7))
    withdrawn.withdraw(by=OPERATOR)
    used.accept(User.objects.create(username="c"), by=OPERATOR)
    user = User.objects.create(username="d")
    for invitation in (expired, withdrawn, used):
        with pytest.raises(ValidationError, match="no longer valid"):
            invitation.accept(user, by=OPERATOR)
        with pytest.raises(ValidationError, match="no longer valid"):
            invitation.withdraw(by=OPERATOR)


def test_member_cannot_accept_another_invitation(account: Account) -> None:
    member, invitation = add_member(account, "ann"), invite(account)
    with pytest.raises(ValidationError, match="already a member"):
        invitation.accept(member.user, by=OPERATOR)
    assert Invitation.objects.open().get() == invitation


def test_invitations_are_limited_per_account(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (members.MAX_OPEN_INVITATIONS, members.MAX_INVITATIONS_PER_DAY) == (20, 50)
    monkeypatch.setattr(members, "MAX_OPEN_INVITATIONS", 2)
    monkeypatch.setattr(members, "MAX_INVITATIONS_PER_DAY", 3)
    invite(account)
    with pytest.raises(ValidationError, match="already has an invitation"):
        invite(account, email=EMAIL.upper())
    invite(account, email="second@example.com")
    with pytest.raises(ValidationError, match="at most 2 open"):
        invite(account, email="more@example.com")
    invite(Account.objects.create(name="Other", plan_id="free"))
    rows = Invitation.objects.filter(account=account)
    rows.update(closed_at=timezone.now())
    invite(account, email="third@example.com").withdraw(by=OPERATOR)
    with pytest.raises(ValidationError, match="At most 3 invitations"):
        invite(account, email="more@example.com")
    rows.update(created_at=timezone.now() - timedelta(days=31))
    invite(account)
    assert rows.count() == 1  # Old addresses are deleted.


def test_members_and_memberships_are_limited(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages list all of them, and mails go to all members."""
    monkeypatch.setattr(members, "MAX_MEMBERS", 2)
    monkeypatch.setattr(members, "MAX_MEMBERSHIPS", 2)
    owner, _ = add_member(account, "ann"), add_member(account, "ben")
    with pytest.raises(ValidationError, match="Acme Pets has 2 members"):
        add_member(account, "kim")
    others = [Account.objects.create(name=f"Other {number}", plan_id="free") for number in range(2)]
    invite(others[0]).accept(owner.user, by=OPERATOR)
    with pytest.raises(ValidationError, match="You are a member of 2 accounts"):
        invite(others[1]).accept(owner.user, by=OPERATOR)


def test_suspended_account_allows_only_reductions_of_access(account: Account, key: ApiKey) -> None:
    owner = add_member(account, "ann")
    member = add_member(account, "ben", Role.DEVELOPER)
    first, second = (invite(account, email=f"{name}@example.com") for name in "cd")
    account.suspend(reason="Unpaid", by=OPERATOR)
    stale = Account.objects.get(pk=account.pk)
    stale.suspended_at = None  # The stored row is checked, not the instance.
    for action in (
        lambda: invite(stale, email="e@example.com"),
        lambda: first.accept(User.objects.create(username="c"), by=OPERATOR),
        lambda: member.change_role(Role.OWNER, by=OPERATOR),
        lambda: ApiKey.objects.issue(stale, by=OPERATOR),
        lambda: key.rotate(by=OPERATOR),
    ):
        with pytest.raises(ValidationError, match="not possible while Acme Pets is suspended"):
            action()
    member.change_role(Role.READER, by=OPERATOR)
    member.remove(by=OPERATOR)
    second.withdraw(by=OPERATOR)
    key.narrow(key_scopes=["pets:read"], by=OPERATOR)
    key.revoke(reason="Leaked", by=OPERATOR)
    owner.remove(by=OPERATOR)


def test_staff_invite_and_see_the_link_once(account: Account, staff: Client) -> None:
    page, invited = account_page(account), {"email": EMAIL, "role": "owner"}
    response = staff.post(f"{page}invite/", invited)
    [link] = re.findall(r'<code id="link"[^>]*>([^<]+)</code>', unescape(response.text))
    assert "no-store" in response["Cache-Control"]
    text = staff.get(f"{page}change/").text
    assert (EMAIL in text, link in text) == (True, False)
    assert "already has an invitation" in staff.post(f"{page}invite/", invited).text
    entry = AuditEntry.objects.get(action="member_invited")
    assert (entry.actor_name, entry.object_text) == ("boss", "Acme Pets")
    withdraw = f"{page}withdraw/{Invitation.objects.get().pk}/"
    assert staff.post(withdraw, {"reason": "Typo"}).status_code == 302
    assert EMAIL not in staff.get(f"{page}change/").text


def test_staff_change_roles_and_remove_members(account: Account, staff: Client) -> None:
    add_member(account, "ann")
    member = add_member(account, "ben", Role.READER)
    change, remove = (f"{account_page(account)}{verb}/{member.pk}/" for verb in ("change-role", "remove"))
    sent = {"role": "owner", "reason": "Asked"}
    assert [staff.post(change, sent).status_code for _ in range(2)] == [302, 200]
    for role in ("boss", ""):
        assert staff.post(change, sent | {"role": role}).status_code == 200
    assert Membership.objects.get(pk=member.pk).role == Role.OWNER
    assert [staff.post(remove, {"reason": "Left"}).status_code for _ in range(2)] == [302, 404]


def test_rows_of_another_account_or_of_none_are_not_found(account: Account, staff: Client) -> None:
    other = Account.objects.create(name="Other", plan_id="free")
    member, invitation = add_member(other, "ann"), invite(other)
    webhook = Endpoint.objects.add(other, url="https://93.184.216.34/", by=OPERATOR)
    sent = {"reason": "x", "role": "reader"}
    pages = [f"change-role/{member.pk}/", f"remove/{member.pk}/", "remove/0/", f"withdraw/{invitation.pk}/"]
    for page in (*pages, f"disable-webhook/{webhook.pk}/", f"enable-webhook/{webhook.pk}/"):
        assert staff.get(account_page(account) + page).status_code == 404
        assert staff.post(account_page(account) + page, sent).status_code == 404
    assert list(Invitation.objects.open()) == [invitation]
    assert Membership.objects.get().role == Role.OWNER
    assert Endpoint.objects.get().disabled_at is None


def test_staff_without_account_permissions_cannot_take_over_a_member(account: Account) -> None:
    """A link for choosing the password of a member would give access to the account."""
    member = add_member(account, "ann")
    clerk = User.objects.create(username="personnel", is_staff=True)
    names = ["view_user", "add_user", "change_user", "view_pet"]
    clerk.user_permissions.set(Permission.objects.filter(codename__in=names))
    client, group = signed_in(clerk), member_of("Stock").groups.get()
    group.permissions.set(Permission.objects.filter(codename="view_pet"))
    sent = {"username": "ann", "groups": group.pk, "reason": "x"}
    assert client.post("/admin/auth/user/make-staff/", sent).status_code == 403
    User.objects.filter(pk=member.user_id).update(is_staff=True)
    assert client.post(f"/admin/auth/user/{member.user_id}/password/", {"reason": "x"}).status_code == 403
