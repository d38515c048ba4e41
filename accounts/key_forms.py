"""The forms with which staff and customers issue, restrict and rotate an API key."""

import secrets
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.keys import networks, scopes
from accounts.models import ROTATION_OVERLAP, Account, Actor, ApiKey, IdempotencyRecord
from petstore.audit.forms import ActionForm, ReasonForm
from petstore.text import format_time

DEFAULT_OVERLAP_HOURS = int(ROTATION_OVERLAP.total_seconds() // 3600)
MAX_OVERLAP_HOURS = 30 * 24
MAX_NETWORKS = 100  # Each request of the key parses them.
SCOPE_CHOICES = [(scope, f"{scope}: {scopes.DESCRIPTIONS[scope]}") for scope in scopes.SCOPES]
ALREADY_ISSUED = (
    "This key has already been issued. If you have lost it, rotate it. "
    "To issue another key, reopen this form."
)


class IssueKeyForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    scopes = forms.MultipleChoiceField(
        choices=SCOPE_CHOICES,
        initial=scopes.READ_SCOPES,
        widget=forms.CheckboxSelectMultiple,
        help_text="What the key may do. Grant write scopes only if the client needs them.",
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
    )
    allowed_networks = forms.CharField(
        required=False,
        max_length=2000,
        widget=forms.Textarea({"rows": 4}),
        help_text="One per line, such as 203.0.113.0/24. Leave empty to allow every address.",
    )
    submission_token = forms.CharField(
        required=False, max_length=64, widget=forms.HiddenInput, initial=lambda: secrets.token_urlsafe(16)
    )

    def clean_account(self) -> Account:
        """Make the checks of `issue` here, to report errors with the field. The lock keeps them valid."""
        account: Account = self.cleaned_data["account"].lock()
        if account.suspended_at:
            message = f"{account} is suspended, so a new key would not work. Lift the suspension first."
            raise ValidationError(message)
        ApiKey.objects.check_counts(account, timezone.now(), is_rotation=False)
        ApiKey.objects.check_bans(account)
        return account

    def clean_scopes(self) -> str:
        return scopes.join_scopes(self.cleaned_data["scopes"])

    def clean_allowed_networks(self) -> list[str]:
        texts = self.cleaned_data["allowed_networks"].split()
        if len(texts) > MAX_NETWORKS:
            raise ValidationError(f"Enter at most {MAX_NETWORKS} networks.")
        return networks.normalize(texts)

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
        """Reject a resubmission, so that a double click does not issue a second key.

        This is the last step of validation, so that a form with other errors can be submitted again.
        """
        super()._post_clean()  # type: ignore[misc]  # The stubs lack it.
        token = self.cleaned_data.get("submission_token")
        if token and not self.errors and not claim_submission(token, self.cleaned_data["account"]):
            self.add_error(None, ALREADY_ISSUED)

    def issue(self, by: Actor) -> tuple[ApiKey, str]:
        """Issue the key. Return it and its text."""
        data = self.cleaned_data
        return ApiKey.objects.issue(
            data["account"], name=data["name"], key_scopes=data["scopes"].split(),
            expires_at=data["expires_at"], allowed_networks=data["allowed_networks"], by=by,
        )  # fmt: skip


def claim_submission(submission_token: str, account: Account) -> bool:
    """Record the submission in the current transaction; return False if it was already recorded.

    A concurrent duplicate blocks on the unique index. The space in the key prevents collisions with
    idempotency keys of clients, which contain none (D31).
    """
    try:
        with transaction.atomic():
            IdempotencyRecord.objects.create(account=account, idempotency_key=f"form {submission_token}")
    except IntegrityError:
        return False
    return True


class RotateForm(ActionForm):
    verb = "rotate"
    title = "Rotate this key?"
    button = "Rotate the key"
    warning = (
        "Issues a replacement with the same scopes and networks, and shows it once. The old key keeps "
        "working for the number of hours below, unless it expires earlier."
    )
    overlap_hours = forms.IntegerField(
        label="Keep the old key working for (hours)",
        required=False,
        min_value=0,
        max_value=MAX_OVERLAP_HOURS,
        initial=DEFAULT_OVERLAP_HOURS,
        help_text=f"From 0 (it expires at once) to {MAX_OVERLAP_HOURS}. Default: {DEFAULT_OVERLAP_HOURS}.",
    )

    def save(self, by: Actor) -> tuple[ApiKey, str]:
        """Return the replacement and its text."""
        hours: int | None = self.cleaned_data["overlap_hours"]
        overlap = ROTATION_OVERLAP if hours is None else timedelta(hours=hours)
        new_key: tuple[ApiKey, str] = self.row.rotate(by=by, overlap=overlap)
        return new_key


class NarrowForm(ReasonForm):
    """Offers the rights that the key has. An empty expiry leaves it unchanged."""

    verb = "narrow"
    title = "Restrict this key?"
    button = "Restrict the key"
    warning = (
        "Takes effect with the next request. This can't be undone: the key and its later replacements "
        "never regain these rights or outlive an earlier expiry."
    )
    danger = True
    success = "Key {} has been restricted."
    key_scopes = forms.MultipleChoiceField(
        label="Scopes",
        widget=forms.CheckboxSelectMultiple,
        help_text="Clear the scopes that the client does not need.",
    )
    expires_at = forms.DateTimeField(
        label="Earlier expiry (UTC)",
        required=False,
        widget=forms.DateTimeInput({"type": "datetime-local"}),
    )
    allowed_networks = IssueKeyForm.declared_fields["allowed_networks"]
    clean_allowed_networks = IssueKeyForm.clean_allowed_networks
    field_order = ("key_scopes", "expires_at", "allowed_networks")

    def __init__(self, *args: Any, row: ApiKey, **kwargs: Any) -> None:
        current, networks = row.scopes.split(), "\n".join(row.allowed_networks)
        initial = {"key_scopes": current, "allowed_networks": networks}
        super().__init__(*args, row=row, initial=initial, **kwargs)
        fields: dict[str, Any] = self.fields
        fields["key_scopes"].choices = [choice for choice in SCOPE_CHOICES if choice[0] in current]
        current_end = format_time(row.expires_at) if row.expires_at else "never"
        fields["expires_at"].help_text = f"Current: {current_end}. Leave empty to keep it."
        if networks:
            fields[
                "allowed_networks"
            ].help_text = "One per line, each within a network that the key allows."


class RevokeForm(ReasonForm):
    verb = "revoke"
    title = "Revoke this key?"
    button = "Revoke the key"
    warning = (
        "Every program that uses this key stops working: its next request gets 401. This can't be undone."
    )
    danger = True
    success = "Key {} has been revoked."
