"""The forms to issue and to rotate a key."""

from __future__ import annotations

import logging
import secrets
import sqlite3
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.utils import timezone
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
)

from accounts import networks, scopes
from accounts.models import ROTATION_OVERLAP

logger = logging.getLogger(__name__)

LONGEST_OVERLAP = 720  # Hours: 30 days.
OVERLAP = int(ROTATION_OVERLAP.total_seconds() // 3600)


class ScopesField(forms.MultipleChoiceField):
    """A checkbox for each scope; its value is the scopes as they are stored."""

    widget = UnfoldAdminCheckboxSelectMultipleWidget

    def clean(self, value: Any) -> str:
        return scopes.stored_form(super().clean(value))


class NetworksField(forms.CharField):
    """Networks, one on each line; its value is the list of them."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 4})

    def clean(self, value: Any) -> list[str]:
        return networks.normalise(super().clean(value).split())


class IssueForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    scopes = ScopesField(choices=[(scope, scope) for scope in scopes.SCOPES], initial=scopes.SCOPES)
    allowed_networks = NetworksField(
        required=False,
        max_length=2000,
        help_text="One on each line, such as 203.0.113.0/24. Leave empty to allow every address.",
    )
    form_id = forms.CharField(
        required=False, max_length=64, widget=forms.HiddenInput, initial=lambda: secrets.token_urlsafe(16)
    )

    def clean_expires_at(self) -> datetime | None:
        end = cast("datetime | None", self.cleaned_data["expires_at"])
        if end is not None and end <= timezone.now():
            raise ValidationError("This time has passed. Choose a later one, or leave it empty.")
        return end

    def _post_clean(self) -> None:
        """Refuse a form that was sent before: a second click or a reload must not issue a second key.

        The last check of all: a form that is refused for something else may be sent again.
        """
        super()._post_clean()  # type: ignore[misc]  # The stubs lack it.
        form_id = self.cleaned_data.get("form_id")
        if form_id and not self.errors and was_sent(form_id):
            text = "This form was sent before, and a key was issued. To issue another, open the form anew."
            self.add_error(None, text)


def was_sent(form_id: str) -> bool:
    """Tell whether a form was sent before, and note that it is sent now."""
    try:
        return not cache.add(f"issued by form {form_id}", 1, 24 * 60 * 60)
    except sqlite3.Error:  # Keys must be issued while the counters are away.
        logger.exception("The counters can't be reached, so a second click would issue a second key.")
        return False


class RotateForm(forms.Form):
    overlap_hours = forms.IntegerField(
        label="Hours that the old key works on",
        required=False,
        min_value=0,
        max_value=LONGEST_OVERLAP,
        initial=OVERLAP,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=f"From 0 (it ends at once) to {LONGEST_OVERLAP}. Empty: {OVERLAP}.",
    )


def overlap(given: dict[str, Any]) -> timedelta:
    """Return how long the old key works on, by the valid RotateForm."""
    hours = given["overlap_hours"]
    return ROTATION_OVERLAP if hours is None else timedelta(hours=hours)
