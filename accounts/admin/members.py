"""The panel of members and invitations on the page of an account, and the pages behind its links."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from unfold.widgets import UnfoldAdminEmailInputWidget, UnfoldAdminSelectWidget

from accounts.admin.account_panels import Panel, panel_factories
from accounts.admin.base import ConfirmedChangesAdmin, change_url, make_reason_view
from accounts.models import Account, Invitation, Membership, Role
from petstore.audit import Actor
from petstore.backoffice.confirmation import Confirmation, ReasonForm

INVITE = Confirmation(
    "Invite a member",
    "Create a link",
    "Creates a link that works once, for 7 days, for the first person who uses it. "
    "New people choose a username and a password; others sign in and accept.",
)
CHANGE_ROLE = Confirmation("Change the role of a member", "Change the role", "Takes effect at once.")
REMOVE = Confirmation(
    "Remove this member?",
    "Remove the member",
    "They can no longer open the account's pages. Keys that they know keep working until you rotate them.",
    danger=True,
)
WITHDRAW = Confirmation("Withdraw this invitation?", "Withdraw", "Its link stops working.", danger=True)
ROLES = [("", "Choose a role"), *Role.choices]  # No role is granted by mistake.


class RoleForm(ReasonForm):
    role = forms.ChoiceField(choices=ROLES, widget=UnfoldAdminSelectWidget)
    field_order = ("role", "reason")


class InviteForm(forms.Form):
    email = forms.EmailField(label="Email address", widget=UnfoldAdminEmailInputWidget({"autofocus": True}))
    role = forms.ChoiceField(choices=ROLES, widget=UnfoldAdminSelectWidget)


class MembersAdmin(ConfirmedChangesAdmin):
    """Adds the pages of members and invitations to the admin of accounts."""

    object_pages = {
        "invite/": "invite",
        "members/<int:row_id>/role/": "change_role",
        "members/<int:row_id>/remove/": "remove_member",
        "invitations/<int:row_id>/withdraw/": "withdraw",
    }

    def invite_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        account = self.get_permitted_object(request, object_id, self.has_change_permission)

        def invite(cleaned_data: dict[str, Any]) -> HttpResponse:
            """Render the link in response to the POST, so that it is not stored anywhere."""
            actor, back = Actor.from_request(request), change_url(account)
            invitation, link = Invitation.objects.invite(account, **cleaned_data, by=actor)
            context = {"object": account, "back": back, "invitation": invitation, "link": link}
            return self.render_page(request, "accounts/account/invited", "Copy the link now", **context)

        return self.confirm_change(request, account, INVITE, InviteForm, invite, description=str(account))

    change_role_view = make_reason_view(
        CHANGE_ROLE, Membership.change_role, "{}: changed.", RoleForm, relation="memberships"
    )
    remove_member_view = make_reason_view(REMOVE, Membership.remove, "{}: removed.", relation="memberships")
    withdraw_view = make_reason_view(
        WITHDRAW, Invitation.withdraw, "{}: withdrawn.", relation="invitations"
    )


def build_members_panel(account: Account, request: HttpRequest) -> Panel:
    rows: list[Any] = [*account.memberships.select_related("user"), *account.invitations.open()]
    return Panel("admin/accounts/account/members.html", rows, entries=[])


panel_factories.append(build_members_panel)
