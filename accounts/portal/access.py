"""Access to the pages of an account (D46)."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from accounts.models import Membership, Role
from petstore.sign_in.rate_limits import CHANGES_PER_DAY, count_attempt, render_too_many
from petstore.sign_in.second_factors import has_second_factor

View = Callable[..., HttpResponse]

OPENED_LAST = "account"  # In the session: the public ID of an account.

# Limits on keys and invitations don't bound these. Disabling and removing are bounded by their opposites.
REPEATABLE_VERBS = {
    "role", "narrow", "change", "enable", "replay", "reveal-secret", "rotate-secret", "send-test",
}  # fmt: skip


def for_members(
    role: Role = Role.READER,
    *,
    post: Role | None = None,
    reauthenticate: bool = False,
    locks: bool = True,
    limit: str = "",
) -> Callable[[View], View]:
    """Let members with this role or a more powerful one open a page. The view gets their membership.

    `post` is the role for a POST, if it differs. `limit` names what a POST may repeat CHANGES_PER_DAY
    times, if the URL has no verb. Others can't use it up, either.
    A POST runs in a transaction that holds the lock of the account, so a removed member can't act.
    Without `locks`, the view calls `act_locked` after what would hold the lock for too long.
    `reauthenticate` asks for the password or passkey again after 2 hours (D48).
    """

    def decorate(view: View) -> View:
        @wraps(view)
        @login_required
        def page(request: HttpRequest, public_id: str, **kwargs: Any) -> HttpResponse:
            me = get_object_or_404(find_members(), account__public_id=public_id, user=request.user.pk)
            if request.session.get(OPENED_LAST) != public_id:
                request.session[OPENED_LAST] = public_id
            required = post if post and request.method == "POST" else role
            if rejection := reject(request, me, required):
                return rejection
            if reauthenticate:
                raise_if_reauthentication_required(request, app="portal")
            if request.method != "POST":
                return view(request, me, **kwargs)
            verb = limit or kwargs.get("verb", "")
            if limit or verb in REPEATABLE_VERBS:
                rate = f"{verb} in account", me.account.public_id, CHANGES_PER_DAY
                if seconds := count_attempt(request, [rate]):
                    return render_too_many(request, seconds)
            act = partial(view, **kwargs)
            return act_locked(request, me, required, act) if locks else act(request, me)

        return page

    return decorate


def find_own_membership(request: HttpRequest) -> Membership | None:
    """Find the membership in the account that the user opened last in this session, or another one."""
    own, opened_last = find_members().filter(user=request.user.pk), request.session.get(OPENED_LAST)
    return max(own, key=lambda me: me.account.public_id == opened_last, default=None)


def find_members() -> QuerySet[Membership]:
    members = Membership.objects.select_related("account__plan", "user")
    return members.prefetch_related("user__memberships__account")


def act_locked(request: HttpRequest, me: Membership, role: Role, act: View) -> HttpResponse:
    """Call `act` in a transaction that holds the lock of the account, if the member still has the role."""
    with transaction.atomic():
        try:
            me.account.lock()
        except ValidationError:
            raise Http404 from None
        me = get_object_or_404(find_members(), pk=me.pk)
        return reject(request, me, role) or act(request, me)


def reject(request: HttpRequest, me: Membership, role: Role) -> HttpResponse | None:
    """Return a 403 if the role is too low, or the account requires a second factor that the user lacks."""
    if role.exceeds(me.role):
        return deny(request, me, role)
    if me.account.requires_second_factor and not has_second_factor(me.user):
        return render(request, "portal/second_factor.html", {"account": me.account}, status=403)
    return None


def deny(request: HttpRequest, me: Membership, role: Role) -> HttpResponse:
    labels = " or ".join(other.label.lower() for other in Role if not role.exceeds(other))
    text = f"Your role in {me.account} is {me.get_role_display().lower()}. Ask an {labels}."
    return render(request, "error.html", {"title": "No access", "text": text}, status=403)
