"""The commands about members of accounts."""

import re

from django.contrib.auth.models import User

from accounts.models import Account, Invitation, Membership
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.commands import get_error, run, run_json

EMAIL = "ann@example.com"


def invite(account: Account, *options: str) -> str:
    return run("invite", "--account", account.public_id, "--email", EMAIL, *options)


def test_invite_prints_a_link_that_works(account: Account) -> None:
    link, _, text = invite(account).splitlines()
    invitation = Invitation.objects.find(link.split("/")[-2])
    assert invitation is not None
    assert (invitation.account, invitation.role, invitation.email) == (account, "owner", EMAIL)
    assert re.fullmatch(r"Account owner of Acme Pets\. Works once, until .*\.", text)
    entry = AuditEntry.objects.get(action="member_invited")
    assert entry.actor_name.endswith("(command)")
    invitation.accept(User.objects.create(username="ann"), by=OPERATOR)
    result = run_json("invite", "--account", account.public_id, "--email", EMAIL)
    assert result.keys() == {"id", "account", "role", "expires_at", "link"}
    assert (result["account"], result["role"]) == (account.public_id, "developer")


def test_members_are_listed_and_removed(account: Account) -> None:
    assert "has no members" in run("list_members", "--account", account.public_id)
    assert "No account has the ID" in get_error("list_members", "--account", account.name)
    link = invite(account).split()[0]
    invitation = Invitation.objects.find(link.split("/")[-2])
    assert invitation is not None
    invitation.accept(User.objects.create(username="ann"), by=OPERATOR)
    offered = run_json("invite", "--account", account.public_id, "--email", "ben@example.com")["id"]
    rows = run_json("list_members", "--account", account.public_id)
    assert [(row["member"], row["role"], row["state"]) for row in rows] == [
        ("ann", "owner", "joined"), ("ben@example.com", "developer", "invited"),
    ]  # fmt: skip
    assert "ben@example.com" in run("list_members", "--account", account.public_id)
    assert run("remove_member", offered) == f"Done. {offered} is withdrawn.\n"
    done = run_json("remove_member", invitation.public_id, "--reason", "Left")
    assert done == {"id": invitation.public_id, "outcome": "removed"}
    assert not Membership.objects.exists()
    assert "No member or open invitation has the ID" in get_error("remove_member", offered)
