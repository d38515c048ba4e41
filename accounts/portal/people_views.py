"""The page of an account's members and invitations (D49)."""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.core.exceptions import BadRequest, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from accounts.models import Actor, Invitation, Membership, Role
from accounts.portal.access import for_members
from accounts.portal.forms import InviteForm
from petstore.sign_in.second_factors import find_users_with_second_factor, has_second_factor

# Maps verbs to the relation of the row, the method to call, and the message.
CHANGES: dict[str, tuple[str, Callable[..., None], str]] = {
    "role": ("memberships", Membership.change_role, "The role is changed."),
    "remove": ("memberships", partial(Membership.remove, keep_owner=True), "The member is removed."),
    "withdraw": ("invitations", Invitation.withdraw, "The invitation is withdrawn."),
}


@for_members(post=Role.OWNER, reauthenticate=True)
def people(request: HttpRequest, me: Membership) -> HttpResponse:
    """Show the members. POST creates an invitation."""
    form = InviteForm(request.POST or None)
    context = {"me": me, "page": "people", "roles": Role.choices, "form": form}
    if form.is_valid():
        try:
            by = Actor.from_request(request)
            invitation, link = Invitation.objects.invite(me.account, **form.cleaned_data, by=by)
            # Rendered in response to the POST, so that the link is not stored anywhere.
            return render(
                request, "portal/invited.html", context | {"invitation": invitation, "link": link}
            )
        except ValidationError as error:
            form.add_error(None, error.messages)
    # Addresses are visible to owners only.
    context["invitations"] = me.account.invitations.open() if me.role == Role.OWNER else []
    members = list(me.account.memberships.select_related("user"))
    owners = {member.pk for member in members if member.role == Role.OWNER and member.user.is_active}
    users = find_users_with_second_factor(member.user for member in members)
    context["has_second_factor"] = me.user_id in users
    # Only owners see who has a second factor.
    context["members"] = [
        (member, owners == {member.pk}, member.user_id in users if me.role == Role.OWNER else None)
        for member in members
    ]
    return render(request, "portal/people.html", context)


@for_members(Role.OWNER, reauthenticate=True)
def change(request: HttpRequest, me: Membership, row_id: str, verb: str) -> HttpResponse:
    if verb not in CHANGES:
        raise Http404
    relation, method, message = CHANGES[verb]
    method = partial(method, get_object_or_404(getattr(me.account, relation), public_id=row_id))
    if verb == "role" and request.method == "POST":
        if request.POST.get("role") not in Role.values:
            raise BadRequest
        method = partial(method, role=request.POST["role"])
    return call_on_post(request, method, message, "portal:people", me.account.public_id)


@for_members(Role.OWNER, reauthenticate=True, limit="second-factor")
def require_second_factor(request: HttpRequest, me: Membership) -> HttpResponse:
    """Turn the requirement on or off. An owner without a second factor would lock themselves out."""
    required = request.POST.get("required") == "on"
    if required and not has_second_factor(me.user):
        messages.error(request, "Set up an authenticator app or a passkey for yourself first.")
        return redirect("portal:people", me.account.public_id)
    method = partial(me.account.require_second_factor, required=required)
    message = f"A second factor is {'now' if required else 'no longer'} required."
    return call_on_post(request, method, message, "portal:people", me.account.public_id)


@for_members(reauthenticate=True)
def leave(request: HttpRequest, me: Membership) -> HttpResponse:
    method = partial(me.remove, keep_owner=True)
    return call_on_post(request, method, f"You have left {me.account}.", "portal:home")


def call_on_post(
    request: HttpRequest, method: Callable[..., None], message: str, *page: str
) -> HttpResponse:
    """On POST, call the method. Redirects to the page, which shows the outcome."""
    if request.method == "POST":
        try:
            method(by=Actor.from_request(request))
            messages.success(request, message)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
    return redirect(*page)
