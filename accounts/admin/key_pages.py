"""The pages on which staff revoke, rotate and unban a key, the one that shows a new key, and the forms."""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from accounts import networks, scopes
from accounts.admin.badges import age, exact, state_badge
from accounts.admin.base import warn_if_untold
from accounts.admin.use import sent_lately
from accounts.models import ROTATION_OVERLAP, Account, ApiKey, IdempotencyRecord, active
from petstore.backoffice.audit import Action, Actor
from petstore.backoffice.confirmation import Question, ReasonForm, confirm
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.multiline import MultilineField
from petstore.db.names import visible_name

LONGEST_OVERLAP = 720  # Hours: 30 days.
OVERLAP = int(ROTATION_OVERLAP.total_seconds() // 3600)
REVOKE = Question(
    "Revoke this key?",
    "Revoke the key",
    "Whatever uses this key stops working: its next request is answered with 401. "
    "This can't be undone; a revoked key can't be brought back.",
    danger=True,
)
UNBAN = Question(
    "Lift the ban of this key?",
    "Lift the ban",
    "It is banned because it kept sending after a 429. Once the ban is lifted, its next request is served.",
)
ROTATE = Question(
    "Rotate this key?",
    "Rotate the key",
    "A new key with the same rights is issued and shown once. The old one keeps working for the hours "
    "below, unless it ends earlier anyway.",
)


class IssueForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {scopes.MEANINGS[scope]}") for scope in scopes.SCOPES],
        initial=scopes.READING,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="What the key may do. Tick writing only if its program needs it.",
    )
    ends = forms.TypedChoiceField(
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
        help_text="One on each line, such as 203.0.113.0/24. Leave empty to allow every address.",
    )
    form_id = forms.CharField(
        required=False, max_length=64, widget=forms.HiddenInput, initial=lambda: secrets.token_urlsafe(16)
    )

    def clean_account(self) -> Account:
        """Refuse a suspended account: its new key would be refused, and nobody would know why."""
        account: Account = self.cleaned_data["account"]
        if account.suspended_at:
            text = f"{account} is suspended, so its keys are refused. Lift the suspension first."
            raise ValidationError(text)
        return account

    def clean_scopes(self) -> str:
        return scopes.stored_form(self.cleaned_data["scopes"])

    def clean_allowed_networks(self) -> list[str]:
        return networks.normalise(self.cleaned_data["allowed_networks"].split())

    def clean_expires_at(self) -> datetime | None:
        end = cast("datetime | None", self.cleaned_data["expires_at"])
        if end is not None and end <= timezone.now():
            raise ValidationError("This time has passed. Choose a later one, or leave it empty.")
        return end

    def clean(self) -> dict[str, Any]:
        """Turn a span of days into the time at which the key ends."""
        cleaned = super().clean() or self.cleaned_data
        if days := cleaned.get("ends"):
            if cleaned.get("expires_at"):
                self.add_error("ends", "Choose a span, or a time below: not both.")
            cleaned["expires_at"] = timezone.now() + timedelta(days=days)
        return cleaned

    def _post_clean(self) -> None:
        """Refuse a form that was sent before: a second click or a reload must not issue a second key.

        The last check of all: a form that is refused for something else may be sent again.
        """
        super()._post_clean()  # type: ignore[misc]  # The stubs lack it.
        form_id = self.cleaned_data.get("form_id")
        if form_id and not self.errors and has_issued(form_id, self.cleaned_data["account"]):
            text = (
                "This key has been issued already. If you did not see its text, rotate it. "
                "To issue another key, open the form again."
            )
            self.add_error(None, text)


def has_issued(form_id: str, account: Account) -> bool:
    """Return whether the form has issued a key; if not, record in this transaction that it does.

    The record is committed with the key, or neither is. A concurrent duplicate waits for it at the unique
    index. No client can send its Idempotency-Key: that has no space (D31).
    """
    try:
        with transaction.atomic():
            IdempotencyRecord.objects.create(account=account, key=f"form {form_id}")
    except IntegrityError:
        return True
    return False


class RotateForm(forms.Form):
    overlap_hours = forms.IntegerField(
        label="Keep the old key working for (hours)",
        required=False,
        min_value=0,
        max_value=LONGEST_OVERLAP,
        initial=OVERLAP,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=f"From 0 (it ends at once) to {LONGEST_OVERLAP}. If left empty: {OVERLAP}.",
    )


class KeyPages(PetstoreModelAdmin):
    row_pages = {"revoke/": "revoke", "unban/": "unban", "rotate/": "rotate"}

    def show_text(self, request: HttpRequest, key: ApiKey, text: str) -> HttpResponse:
        """Return the page with a new key's text.

        It answers the POST itself: a redirect would have to keep the text in the session or a cookie.
        """
        return self.page(
            request, "accounts/apikey/issued", "Copy the new key now",
            key=key, text=text, now=timezone.now(), may_view=self.has_view_permission(request, key),
            curl=f"curl -H 'Authorization: Bearer {text}' {settings.BASE_URL}/pets",
        )  # fmt: skip

    def may_rotate(self, request: HttpRequest, key: ApiKey) -> bool:
        """Tell whether somebody may: it changes one key and issues another."""
        return self.has_change_permission(request, key) and self.has_add_permission(request)

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_why(request, object_id, REVOKE, ApiKey.revoke, "Key {} is revoked.")

    def unban_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_why(request, object_id, UNBAN, ApiKey.unban, "The ban of key {} is lifted.")

    def ask_why(
        self, request: HttpRequest, object_id: str, question: Question, verb: Callable[..., None], said: str
    ) -> HttpResponse:
        key = self.row(request, object_id, self.has_change_permission)

        def act(given: dict[str, Any]) -> HttpResponse:
            verb(key, reason=given["reason"], by=Actor.of(request))
            self.message_user(request, said.format(key.public_id))
            return HttpResponseRedirect(address(key))

        return self.ask(request, key, question, ReasonForm, act)

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self.row(request, object_id, self.may_rotate)

        def rotate(given: dict[str, Any]) -> HttpResponse:
            hours = given["overlap_hours"]
            overlap = timedelta(hours=OVERLAP if hours is None else hours)
            return self.show_text(request, *key.rotate(by=Actor.of(request), overlap=overlap))

        return self.ask(request, key, ROTATE, RotateForm, rotate)

    def ask(
        self,
        request: HttpRequest,
        key: ApiKey,
        question: Question,
        form_class: type[forms.Form],
        act: Callable[[dict[str, Any]], HttpResponse],
    ) -> HttpResponse:
        """Ask about a key, with what one should know of it; then act, and warn if Redis wasn't told."""

        def act_and_warn(given: dict[str, Any]) -> HttpResponse:
            response = act(given)
            warn_if_untold(self, request, pk=key.pk)
            return response

        now = timezone.now()
        about = format_html(
            'Key <span class="public-id">{}</span> of <strong>{}</strong>', key.public_id, key.account
        )
        return confirm(
            self, request, question, form_class, act_and_warn,
            back=address(key), about=about, badge=state_badge(key, now), facts=facts(key, now),
        )  # fmt: skip


def address(key: ApiKey) -> str:
    return reverse("admin:accounts_apikey_change", args=[key.pk])


def facts(key: ApiKey, now: datetime) -> dict[str, Any]:
    """Return what somebody should know before they end a key, by its name for people."""
    working = ApiKey.objects.filter(active(now), account=key.account_id).exclude(pk=key.pk).count()
    ban_end = key.ban_end(now)
    event = key.events.filter(action=Action.BANNED).first() if ban_end else None
    since = {"Banned since": exact(event.at), "Reason of the ban": event.reason} if event else {}
    return {
        "Name of the key": visible_name(key.name) or "none",
        "Scopes": ", ".join(key.scopes.split()),
        "Last use": age(key.last_used_at, now),
        **sent_lately(now, key=key),
        "Other active keys of the account": working or "None. This is its only one.",
        **since,
        **({"The ban ends": exact(ban_end)} if ban_end else {}),
    }
