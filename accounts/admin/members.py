"""The panel of members and invitations on the page of an account, and the pages behind its links."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold.widgets import UnfoldAdminEmailInputWidget, UnfoldAdminSelectWidget

from accounts.admin.account_panels import Panel, panel_factories
from accounts.admin.base import change_url
from accounts.models import Account, Invitation, Membership, Role
from petstore.backoffice.audit import Actor
from petstore.backoffice.confirmation import Confirmation, ReasonForm, confirm

PAGES = {
    "invite/": "invite",
    "members/<int:row_id>/role/": "change_role",
    "members/<int:row_id>/remove/": "remove_member",
    "invitations/<int:row_id>/withdraw/": "withdraw",
}
INVITE = Confirmation(
    "Invite a member",
    "Create a link",
    "Creates a link that you pass on. It works once, for 7 days, for the first person who uses it. "
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


def invite_view(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    account = self.get_permitted_object(request, object_id, self.has_change_permission)
    actor, context = Actor.from_request(request), {"back": change_url(account), "object": account}

    def invite(cleaned_data: dict[str, Any]) -> HttpResponse:
        """Render the link in response to the POST, so that it is not stored anywhere."""
        invitation, link = Invitation.objects.invite(account, **cleaned_data, by=actor)
        values = context | {"invitation": invitation, "link": link}
        page = "accounts/account/invited", "Copy the link now"
        response: HttpResponse = self.render_page(request, *page, **values)
        return response

    values: Any = context | {"description": str(account)}
    return confirm(self, request, INVITE, InviteForm, invite, **values)


def make_view(
    confirmation: Confirmation,
    form_class: type[forms.Form],
    relation: str,
    method: Callable[..., None],
    message: str,
) -> Callable[..., HttpResponse]:
    """Make a view that calls `method(row, **cleaned_data, by=Actor)` for a row of the account."""

    def view(self: Any, request: HttpRequest, object_id: str, row_id: int) -> HttpResponse:
        account = self.get_permitted_object(request, object_id, self.has_change_permission)
        row, back = getattr(account, relation).filter(pk=row_id).first(), change_url(account)
        if row is None:
            raise Http404

        def act(cleaned_data: dict[str, Any]) -> HttpResponse:
            method(row, **cleaned_data, by=Actor.from_request(request))
            self.message_user(request, message.format(row), messages.SUCCESS)
            return redirect(back)

        context: Any = {"back": back, "description": str(row), "object": account}
        return confirm(self, request, confirmation, form_class, act, **context)

    return view


change_role_view = make_view(CHANGE_ROLE, RoleForm, "memberships", Membership.change_role, "{}: changed.")
remove_member_view = make_view(REMOVE, ReasonForm, "memberships", Membership.remove, "{}: removed.")
withdraw_view = make_view(WITHDRAW, ReasonForm, "invitations", Invitation.withdraw, "{}: withdrawn.")


def build_members_panel(account: Account, request: HttpRequest) -> Panel:
    rows: list[Any] = [*account.memberships.select_related("user"), *account.invitations.open()]
    return Panel("admin/accounts/account/members.html", rows, entries=[])


panel_factories.append(build_members_panel)
