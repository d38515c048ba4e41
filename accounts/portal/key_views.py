"""The pages on which members view, issue, restrict, rotate and revoke keys (D49, D50)."""

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
from accounts.explanations import with_error_codes
from accounts.key_forms import NarrowForm, RevokeForm, RotateForm
from accounts.keys import scopes
from accounts.models import Actor, ApiKey, Membership, Role, active_keys_q
from accounts.portal.access import for_members
from accounts.portal.history import build_history, find_creators
from accounts.usage.charts import build_usage_chart
from petstore.api.int64 import INT64_MAX, parse_id

INACTIVE_PER_PAGE = 20
MAX_REJECTIONS = 5
CHANGES = {form.verb: form for form in (RotateForm, NarrowForm, RevokeForm)}


class IssueKeyForm(key_forms.IssueKeyForm):
    class Meta:
        model = ApiKey
        fields = ("name", "expires_at")
        labels = {"expires_at": "Expires at (UTC)"}
        widgets = {"expires_at": forms.DateTimeInput(attrs={"type": "datetime-local"})}

    field_order: tuple[str, ...] = ("name", "scopes", "expires_in", "expires_at")
    save = key_forms.IssueKeyForm.issue  # type: ignore[assignment]  # Like an ActionForm.

    def clean(self) -> dict[str, Any]:
        return super().clean() | {"account": self.instance.account}


class FirstKeyForm(IssueKeyForm):
    """Offers the scopes that the quickstart needs, since an issued key can't gain any."""

    purpose = forms.ChoiceField(
        label="The key may",
        choices=[("quickstart", "Quickstart: read and order"), ("", "Only what I choose")],
        initial="quickstart",
        required=False,
        widget=forms.RadioSelect,
    )
    field_order = ("name", "purpose", *IssueKeyForm.field_order[1:])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scopes"].required = False

    def clean_scopes(self) -> str:
        if self.cleaned_data["purpose"] == "quickstart":
            return scopes.join_scopes(scopes.QUICKSTART_SCOPES)
        return super().clean_scopes()


@for_members()
@require_safe
def keys(request: HttpRequest, me: Membership) -> HttpResponse:
    """List all active keys, and the others page by page, the newest first."""
    now, before = timezone.now(), parse_id(request.GET.get("before"))
    states = "rate_limit_state", "rotated_to"
    active = [] if before else list(ApiKey.objects.active_since(me.account, now).select_related(*states))
    others = me.account.keys.exclude(active_keys_q(now)).filter(pk__lt=before or INT64_MAX)
    inactive = list(others.select_related(*states)[: INACTIVE_PER_PAGE + 1])
    creators = find_creators(me.account, active + inactive)

    def build_rows(keys: list[ApiKey]) -> list[tuple[Any, ...]]:
        return [(key, *key.describe_state(now), creators.get(str(key.pk))) for key in keys]

    context = {
        "active": build_rows(active),
        "inactive": build_rows(inactive[:INACTIVE_PER_PAGE]),
        "next": inactive[-2].pk if len(inactive) > INACTIVE_PER_PAGE else None,
        "before": before,
        "ban_end": max(filter(None, (key.get_ban_end(now) for key in active + inactive)), default=None),
    }
    return render(request, "portal/keys.html", context | {"me": me, "page": "keys"})


@for_members()
@require_safe
def key(request: HttpRequest, me: Membership, key_id: str) -> HttpResponse:
    row, now = find_key(me, key_id), timezone.now()
    state, state_text = row.describe_state(now)
    rejections = list(row.rejections.select_related("key")[: MAX_REJECTIONS + 1])
    context = {
        "key": row,
        "state": state,
        "state_text": state_text,
        "is_active": row.get_state(now) == "active",
        "creator": find_creators(me.account, [row]).get(str(row.pk)),
        "chart": build_usage_chart(now, key=row),
        "rejections": with_error_codes(rejections[:MAX_REJECTIONS]),
        "has_more": len(rejections) > MAX_REJECTIONS,
        "history": build_history(row),
    }
    return render(request, "portal/key.html", context | {"me": me, "page": "keys"})


def find_key(me: Membership, key_id: str) -> ApiKey:
    rows = me.account.keys.select_related("rate_limit_state", "rotated_to", "rotated_from")
    key: ApiKey = get_object_or_404(rows, public_id=key_id)
    return key


@for_members(Role.DEVELOPER, reauthenticate=True)
def issue(request: HttpRequest, me: Membership) -> HttpResponse:
    form_class = IssueKeyForm if me.account.keys.exists() else FirstKeyForm
    form = form_class(request.POST or None, instance=ApiKey(account=me.account))
    return handle_form(request, form, "Issue a key", me=me)


@for_members(Role.DEVELOPER, reauthenticate=True)
def change(request: HttpRequest, me: Membership, key_id: str, verb: str) -> HttpResponse:
    """Rotate, restrict or revoke a key."""
    key = find_key(me, key_id)
    if verb not in CHANGES:
        raise Http404
    form = CHANGES[verb](request.POST or None, row=key)
    return handle_form(request, form, form.button, me=me, key=key, verb=verb)


def handle_form(
    request: HttpRequest, form: Any, title: str, *, me: Membership, **context: Any
) -> HttpResponse:
    """Show the form until it is valid, then save it. A rejected action may be submitted again."""
    if form.is_bound:
        try:
            with transaction.atomic():
                if form.is_valid():
                    if new_key := form.save(Actor.from_request(request)):
                        return show_key_text(request, me, *new_key)
                    messages.success(request, form.success.format(form.row))
                    return redirect("portal:key", me.account.public_id, form.row.public_id)
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
