"""The panel of members and invitations on the page of an account, and the pages behind its links."""

from typing import Any

from django import forms
from django.http import HttpRequest

from accounts.admin.account_panels import Panel, panel_factories
from accounts.models import Account, Actor, Invitation, Membership, Role
from petstore.audit.forms import ActionForm, ReasonForm
from petstore.backoffice.history import extra_fields

ROLES = [("", "Choose a role"), *Role.choices]  # No role is granted by mistake.


class InviteForm(ActionForm):
    verb = "invite"
    title = "Invite a member"
    button = "Create a link"
    warning = (
        "Creates a link that works once, for 7 days, for the first person who uses it. "
        "New people choose a username and a password; others sign in and accept."
    )
    email = forms.EmailField(label="Email address")
    role = forms.ChoiceField(choices=ROLES)

    def save(self, by: Actor) -> tuple[Invitation, str]:
        """Return the invitation and its link."""
        return Invitation.objects.invite(self.row, **self.cleaned_data, by=by)


class ChangeRoleForm(ReasonForm):
    verb, relation = "change_role", "memberships"
    title = "Change the role of a member"
    button = "Change the role"
    warning = "Takes effect at once."
    success = "{}: changed."
    role = forms.ChoiceField(choices=ROLES)
    field_order = ("role", "reason")


class RemoveMemberForm(ReasonForm):
    verb, relation = "remove", "memberships"
    title = "Remove this member?"
    button = "Remove the member"
    warning = "They can no longer open the account's pages. Keys that they know work until you rotate them."
    danger = True
    success = "{}: removed."


class WithdrawForm(ReasonForm):
    verb, relation = "withdraw", "invitations"
    title = "Withdraw this invitation?"
    button = "Withdraw"
    warning = "Its link stops working."
    danger = True
    success = "{}: withdrawn."


FORMS = (InviteForm, ChangeRoleForm, RemoveMemberForm, WithdrawForm)


def build_members_panel(account: Account, request: HttpRequest) -> Panel:
    rows: list[Any] = [*account.memberships.select_related("user"), *account.invitations.open()]
    return Panel("admin/accounts/account/members.html", rows, entries=[])


panel_factories.append(build_members_panel)
extra_fields["accounts.account", "role"] = Membership._meta.get_field("role")
