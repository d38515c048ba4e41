"""Access to the pages of an account (D46)."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from accounts.models import Membership, Role
from petstore.sign_in.rate_limits import CHANGES_PER_DAY, count_attempt, render_too_many

View = Callable[..., HttpResponse]

REPEATABLE_VERBS = {"role", "narrow"}  # The limits on keys and invitations do not bound these.


def for_members(role: Role = Role.READER, *, reauthenticate: bool = False) -> Callable[[View], View]:
    """Let members with this role or a more powerful one open a page. The view gets their membership.

    A POST runs in a transaction that holds the lock of the account, so a removed member can't act.
    `reauthenticate` asks for the password or passkey again after 2 hours (D48).
    """

    def decorate(view: View) -> View:
        @wraps(view)
        @login_required
        def page(request: HttpRequest, public_id: str, **kwargs: Any) -> HttpResponse:
            members = Membership.objects.select_related("account__plan", "user")
            members = members.prefetch_related("user__memberships__account")
            me = get_object_or_404(members, account__public_id=public_id, user=request.user.pk)
            if role.exceeds(me.role):
                return deny(request, me, role)
            if reauthenticate:
                raise_if_reauthentication_required(request, app="portal")
            if request.method != "POST":
                return view(request, me, **kwargs)
            verb = kwargs.get("action") or kwargs.get("verb")
            if verb in REPEATABLE_VERBS:
                limit = f"{verb} in account", me.account.public_id, CHANGES_PER_DAY
                if seconds := count_attempt(request, [limit]):
                    return render_too_many(request, seconds)
            with transaction.atomic():
                try:
                    me.account.lock()
                except ValidationError:
                    raise Http404 from None
                me = get_object_or_404(members, pk=me.pk)
                return deny(request, me, role) if role.exceeds(me.role) else view(request, me, **kwargs)

        return page

    return decorate


def deny(request: HttpRequest, me: Membership, role: Role) -> HttpResponse:
    labels = " or ".join(other.label.lower() for other in Role if not role.exceeds(other))
    text = f"Your role in {me.account} is {me.get_role_display().lower()}. Ask an {labels}."
    return render(request, "error.html", {"title": "No access", "text": text}, status=403)
