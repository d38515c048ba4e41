"""The page of an account's members and invitations (D49)."""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.core.exceptions import BadRequest, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from accounts.models import Actor, Invitation, Membership, Role
from accounts.portal.access import deny, for_members
from accounts.portal.forms import InviteForm

# Maps actions to the relation of the row, the method to call, and the message.
CHANGES: dict[str, tuple[str, Callable[..., None], str]] = {
    "role": ("memberships", Membership.change_role, "The role is changed."),
    "remove": ("memberships", partial(Membership.remove, keep_owner=True), "The member is removed."),
    "withdraw": ("invitations", Invitation.withdraw, "The invitation is withdrawn."),
}


@for_members(reauthenticate=True)
def people(request: HttpRequest, me: Membership) -> HttpResponse:
    """Show the members. POST creates an invitation."""
    if request.method == "POST" and me.role != Role.OWNER:
        return deny(request, me, Role.OWNER)
    form = InviteForm(request.POST or None, label_suffix="")
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
    context["members"] = me.account.memberships.select_related("user")
    return render(request, "portal/people.html", context)


@for_members(Role.OWNER, reauthenticate=True)
def change(request: HttpRequest, me: Membership, row_id: str, action: str) -> HttpResponse:
    if action not in CHANGES:
        raise Http404
    relation, method, message = CHANGES[action]
    method = partial(method, get_object_or_404(getattr(me.account, relation), public_id=row_id))
    if action == "role" and request.method == "POST":
        if request.POST.get("role") not in Role.values:
            raise BadRequest
        method = partial(method, role=request.POST["role"])
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
