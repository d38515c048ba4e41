"""The pages on which members issue, narrow, rotate and revoke keys (D49, D50)."""

from collections.abc import Callable
from datetime import timedelta
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
from accounts.models import Actor, ApiKey, Membership, Role, active_keys_q
from accounts.portal.access import for_members
from petstore.backoffice.confirmation import ReasonForm

MAX_INACTIVE = 20
Act = Callable[[dict[str, Any]], HttpResponse]


class IssueKeyForm(key_forms.IssueKeyForm):
    class Meta:
        model = ApiKey
        fields = ("name", "expires_at")
        labels = {"expires_at": "Expires at (UTC)"}
        widgets = {"expires_at": forms.DateTimeInput(attrs={"type": "datetime-local"})}

    field_order = ("name", "scopes", "expires_in", "expires_at")

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
    def act(data: dict[str, Any]) -> HttpResponse:
        new_key = ApiKey.objects.issue(
            me.account, name=data["name"], key_scopes=data["scopes"].split(),
            expires_at=data["expires_at"], allowed_networks=data["allowed_networks"],
            by=Actor.from_request(request),
        )  # fmt: skip
        return show_key_text(request, me, *new_key)

    form = IssueKeyForm(request.POST or None, instance=ApiKey(account=me.account))
    return handle_form(request, form, act, "Issue a key", me=me)


CHANGES: dict[str, tuple[str, Callable[[ApiKey, Any], forms.Form]]] = {
    "rotate": ("Rotate the key", lambda _, data: key_forms.RotateForm(data)),
    "narrow": ("Narrow the key", key_forms.NarrowForm),
    "revoke": ("Revoke the key", lambda _, data: ReasonForm(data)),
}


@for_members(Role.DEVELOPER, reauthenticate=True)
def change(request: HttpRequest, me: Membership, key_id: str, verb: str) -> HttpResponse:
    """Rotate, narrow or revoke a key."""
    rows = me.account.keys.select_related("rate_limit_state", "rotated_to")
    key: ApiKey = get_object_or_404(rows, public_id=key_id)
    if verb not in CHANGES:
        raise Http404
    title, build_form = CHANGES[verb]

    def act(data: dict[str, Any]) -> HttpResponse:
        by = Actor.from_request(request)
        if verb == "rotate":
            overlap = timedelta(hours=data["overlap_hours"])
            return show_key_text(request, me, *key.rotate(by=by, overlap=overlap))
        getattr(key, verb)(**data, by=by)
        messages.success(request, f"Key {key} has been {verb.removesuffix('e')}ed.")
        return redirect("portal:keys", me.account.public_id)

    form = build_form(key, request.POST or None)
    return handle_form(request, form, act, title, me=me, key=key, verb=verb)


def handle_form(request: HttpRequest, form: Any, act: Act, title: str, **context: Any) -> HttpResponse:
    """Show the form until it is valid, then act. A rejected action may be submitted again."""
    form.label_suffix = ""
    for field in form.fields.values():  # Replace Unfold's widgets with Django's.
        bases = type(field.widget).__mro__
        field.widget.__class__ = next(base for base in bases if base.__module__ == forms.widgets.__name__)
        field.widget.attrs.pop("class", None)
    if form.is_bound:
        try:
            with transaction.atomic():
                if form.is_valid():
                    return act(form.cleaned_data)
        except ValidationError as error:
            form.add_error(None, error)
    return render(request, "portal/key_form.html", context | {"form": form, "title": title, "page": "keys"})


def show_key_text(request: HttpRequest, me: Membership, key: ApiKey, key_text: str) -> HttpResponse:
    """Show the key in the response to the POST, since a redirect would require storing it."""
    path = "pets?limit=3" if "pets:read" in key.scopes.split() else "account"
    curl = f"curl -H 'Authorization: Bearer {key_text}' '{settings.BASE_URL}/{path}'"
    context = {"me": me, "page": "keys", "key": key, "key_text": key_text, "curl": curl}
    context |= {"call": f"/v1/{path}", "now": timezone.now()}
    return render(request, "portal/issued.html", context)
