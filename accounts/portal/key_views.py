"""The pages on which members issue, narrow, rotate and revoke keys (D49, D50)."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from accounts import key_forms
from accounts.key_forms import NarrowForm, RevokeForm, RotateForm
from accounts.models import Actor, ApiKey, Membership, Role, active_keys_q
from accounts.portal.access import for_members

MAX_INACTIVE = 20
CHANGES = {form.verb: form for form in (RotateForm, NarrowForm, RevokeForm)}


class IssueKeyForm(key_forms.IssueKeyForm):
    class Meta:
        model = ApiKey
        fields = ("name", "expires_at")
        labels = {"expires_at": "Expires at (UTC)"}
        widgets = {"expires_at": forms.DateTimeInput(attrs={"type": "datetime-local"})}

    field_order = ("name", "scopes", "expires_in", "expires_at")
    save = key_forms.IssueKeyForm.issue  # type: ignore[assignment]  # Like an ActionForm.

    def clean(self) -> dict[str, Any]:
        return super().clean() | {"account": self.instance.account}


@for_members()
@require_safe
def keys(request: HttpRequest, me: Membership) -> HttpResponse:
    now = timezone.now()
    active = ApiKey.objects.active_since(me.account, now)
    inactive = me.account.keys.exclude(active_keys_q(now))
    active, inactive = (
        keys.select_related("rate_limit_state", "rotated_to") for keys in (active, inactive)
    )
    context = {
        "active": [(key, *key.describe_state(now)) for key in active],
        "inactive": [(key, *key.describe_state(now)) for key in inactive[:MAX_INACTIVE]],
    }
    return render(request, "portal/keys.html", context | {"me": me, "page": "keys"})


@for_members(Role.DEVELOPER, reauthenticate=True)
def issue(request: HttpRequest, me: Membership) -> HttpResponse:
    form = IssueKeyForm(request.POST or None, instance=ApiKey(account=me.account))
    return handle_form(request, form, "Issue a key", me=me)


@for_members(Role.DEVELOPER, reauthenticate=True)
def change(request: HttpRequest, me: Membership, key_id: str, verb: str) -> HttpResponse:
    """Rotate, narrow or revoke a key."""
    rows = me.account.keys.select_related("rate_limit_state", "rotated_to")
    key: ApiKey = get_object_or_404(rows, public_id=key_id)
    if verb not in CHANGES:
        raise Http404
    form = CHANGES[verb](request.POST or None, row=key)
    return handle_form(request, form, form.button, me=me, key=key, verb=verb)


def handle_form(
    request: HttpRequest, form: Any, title: str, *, me: Membership, **context: Any
) -> HttpResponse:
    """Show the form until it is valid, then save it. A rejected action may be submitted again."""
    form.label_suffix = ""
    if form.is_bound:
        try:
            with transaction.atomic():
                if form.is_valid():
                    if new_key := form.save(Actor.from_request(request)):
                        return show_key_text(request, me, *new_key)
                    messages.success(request, form.success.format(form.row))
                    return redirect("portal:keys", me.account.public_id)
        except ValidationError as error:
            form.add_error(None, error)
    context |= {"me": me, "form": form, "title": title, "page": "keys"}
    return render(request, "portal/key_form.html", context)


def show_key_text(request: HttpRequest, me: Membership, key: ApiKey, key_text: str) -> HttpResponse:
    """Show the key in the response to the POST, since a redirect would require storing it."""
    path = "pets?limit=3" if "pets:read" in key.scopes.split() else "account"
    curl = f"curl -H 'Authorization: Bearer {key_text}' '{settings.BASE_URL}/{path}'"
    context = {"me": me, "page": "keys", "key": key, "key_text": key_text, "curl": curl}
    context |= {"call": f"/v1/{path}", "now": timezone.now()}
    return render(request, "portal/issued.html", context)
