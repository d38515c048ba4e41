"""The admin pages that issue, rotate, revoke and unban an API key."""

import secrets
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from accounts.admin.badges import build_state_badge, format_time, render_age
from accounts.admin.base import change_url, count_recent_requests, make_reason_view, warn_if_unpublished
from accounts.keys import networks, scopes
from accounts.models import ROTATION_OVERLAP, Account, ApiKey, IdempotencyRecord, is_active
from petstore.backoffice.audit import Action, Actor
from petstore.backoffice.changelist import parse_id
from petstore.backoffice.confirmation import Confirmation, confirm
from petstore.backoffice.forms import MultilineField
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.db.names import visible_name

DEFAULT_OVERLAP_HOURS = int(ROTATION_OVERLAP.total_seconds() // 3600)
MAX_OVERLAP_HOURS = 30 * 24
REVOKE = Confirmation(
    "Revoke this key?",
    "Revoke the key",
    "Every program that uses this key stops working: its next request gets 401. This can't be undone.",
    danger=True,
)
UNBAN = Confirmation(
    "Lift the ban of this key?",
    "Lift the ban",
    "The key is banned because it kept sending requests after a 429. "
    "Lifting the ban takes effect with the next request.",
)
ROTATE = Confirmation(
    "Rotate this key?",
    "Rotate the key",
    "Issues a replacement with the same scopes and networks, and shows it once. The old key keeps working "
    "for the hours below, unless it expires earlier.",
)


class IssueForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {scopes.DESCRIPTIONS[scope]}") for scope in scopes.SCOPES],
        initial=scopes.READ_SCOPES,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="What the key may do. Select write scopes only if the program needs them.",
    )
    expires_in = forms.TypedChoiceField(
        label="Expires",
        required=False,
        coerce=int,
        empty_value=None,
        choices=[
            ("", "Never, or at the time below"),
            ("30", "In 30 days"),
            ("90", "In 90 days"),
            ("365", "In 1 year"),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    allowed_networks = MultilineField(
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        help_text="One per line, such as 203.0.113.0/24. Leave empty to allow every address.",
    )
    form_id = forms.CharField(
        required=False, max_length=64, widget=forms.HiddenInput, initial=lambda: secrets.token_urlsafe(16)
    )

    def clean_account(self) -> Account:
        account: Account = self.cleaned_data["account"]
        if account.suspended_at:
            text = f"{account} is suspended, so a new key would not work. Lift the suspension first."
            raise ValidationError(text)
        return account

    def clean_scopes(self) -> str:
        return scopes.join_scopes(self.cleaned_data["scopes"])

    def clean_allowed_networks(self) -> list[str]:
        return networks.normalize(self.cleaned_data["allowed_networks"].split())

    def clean_expires_at(self) -> datetime | None:
        expires_at = cast("datetime | None", self.cleaned_data["expires_at"])
        if expires_at is not None and expires_at <= timezone.now():
            raise ValidationError("This time has passed. Choose a later one, or leave the field empty.")
        return expires_at

    def clean(self) -> dict[str, Any]:
        cleaned_data = super().clean() or self.cleaned_data
        if days := cleaned_data.get("expires_in"):
            if cleaned_data.get("expires_at"):
                self.add_error("expires_in", "Choose either a period or a time, not both.")
            cleaned_data["expires_at"] = timezone.now() + timedelta(days=days)
        return cleaned_data

    def _post_clean(self) -> None:
        """Reject a form that has issued a key: a double click must not issue a second one.

        This is the last step of validation, so that a form with other errors can be submitted again.
        """
        super()._post_clean()  # type: ignore[misc]  # The stubs lack it.
        form_id = self.cleaned_data.get("form_id")
        if form_id and not self.errors and not claim_form(form_id, self.cleaned_data["account"]):
            text = (
                "This key has already been issued. If you did not see its text, rotate it. "
                "To issue another key, reopen this form."
            )
            self.add_error(None, text)


def claim_form(form_id: str, account: Account) -> bool:
    """Claim the form for the current transaction; return False if it has issued a key before.

    A concurrent duplicate waits at the unique index. The space in the key prevents collisions with clients'
    idempotency keys, which contain none (D31).
    """
    try:
        with transaction.atomic():
            IdempotencyRecord.objects.create(account=account, key=f"form {form_id}")
    except IntegrityError:
        return False
    return True


class RotateForm(forms.Form):
    overlap_hours = forms.IntegerField(
        label="Keep the old key working for (hours)",
        required=False,
        min_value=0,
        max_value=MAX_OVERLAP_HOURS,
        initial=DEFAULT_OVERLAP_HOURS,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=f"From 0 (it expires at once) to {MAX_OVERLAP_HOURS}. Default: {DEFAULT_OVERLAP_HOURS}.",
    )

    def clean_overlap_hours(self) -> int:
        hours: int | None = self.cleaned_data["overlap_hours"]
        return DEFAULT_OVERLAP_HOURS if hours is None else hours


class KeyLifecycleAdmin(PetstoreModelAdmin):
    """Issues keys and changes their state. Keys are never deleted."""

    can_delete = False
    row_pages = {"revoke/": "revoke", "unban/": "unban", "rotate/": "rotate"}
    add_title = "Issue a key"
    autocomplete_fields = ["account"]
    issue_fields = ["account", "name", "scopes", "expires_in", "expires_at", "allowed_networks", "form_id"]

    # --- Issuing

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = IssueForm
        return super().get_form(request, obj, change, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        pk = parse_id(request.GET.get("account"))
        return {"account": pk} if pk and Account.objects.filter(pk=pk).exists() else {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            # Only the name: writing all fields could undo a concurrent revocation.
            obj.save(update_fields=["name"])
            return
        key, text = ApiKey.objects.issue(
            obj.account,
            name=obj.name,
            key_scopes=obj.scopes.split(),
            expires_at=obj.expires_at,
            allowed_networks=obj.allowed_networks,
            by=Actor.from_request(request),
        )
        obj.pk = key.pk
        obj.refresh_from_db()
        obj.text = text  # Read by response_add. It is never stored.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Do nothing: `issue` has written the audit entry."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        return self.show_key_text(request, obj, obj.text)

    def show_key_text(self, request: HttpRequest, key: ApiKey, text: str) -> HttpResponse:
        """Render the text in the response to the POST, since a redirect would have to store it."""
        return self.render_page(
            request,
            "accounts/apikey/issued",
            "Copy the new key now",
            key=key,
            text=text,
            now=timezone.now(),
            may_view=self.has_view_permission(request, key),
            curl=f"curl -H 'Authorization: Bearer {text}' {settings.BASE_URL}/pets",
        )

    # --- Revoking, unbanning and rotating

    revoke_view = make_reason_view(REVOKE, ApiKey.revoke, "Key {} is revoked.")
    unban_view = make_reason_view(UNBAN, ApiKey.unban, "The ban of key {} is lifted.")

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self.get_permitted_object(request, object_id, self.may_rotate)

        def rotate(cleaned_data: dict[str, Any]) -> HttpResponse:
            overlap = timedelta(hours=cleaned_data["overlap_hours"])
            replacement, text = key.rotate(by=Actor.from_request(request), overlap=overlap)
            warn_if_unpublished(self, request, key)
            return self.show_key_text(request, replacement, text)

        context = self.get_confirmation_context(key)
        return confirm(self, request, ROTATE, RotateForm, rotate, back=change_url(key), **context)

    def may_rotate(self, request: HttpRequest, key: ApiKey) -> bool:
        return self.has_change_permission(request, key) and self.has_add_permission(request)

    def get_confirmation_context(self, key: ApiKey) -> dict[str, Any]:
        """Describe the key on the confirmation pages."""
        now = timezone.now()
        other_keys = key.account.keys.filter(is_active(now)).exclude(pk=key.pk).count()
        details = {
            "Name of the key": visible_name(key.name) or "none",
            "Scopes": ", ".join(key.scopes.split()),
            "Last use": render_age(key.last_used_at, now),
            **count_recent_requests(now, key=key),
            "Other active keys of the account": other_keys or "None. This is its only one.",
        }
        if ban_end := key.get_ban_end(now):
            if entry := key.audit_entries.filter(action=Action.BANNED).first():
                details |= {"Banned since": format_time(entry.at), "Reason for the ban": entry.reason}
            details["The ban ends"] = format_time(ban_end)
        html = 'Key <span class="public-id">{}</span> of <strong>{}</strong>'
        return {
            "description": format_html(html, key.public_id, key.account),
            "badge": build_state_badge(key, now),
            "details": details,
        }
