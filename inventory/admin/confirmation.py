"""The page that asks before something is done, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from petstore.backoffice.model_admin import PetstoreModelAdmin

CONFIRMED = "confirmed"
A_YEAR = timedelta(days=365)


class ReasonForm(forms.Form):
    """Why something is done."""

    reason = forms.CharField(
        max_length=255, widget=UnfoldAdminTextInputWidget, help_text="It is kept in the history."
    )


class ShipDateForm(forms.Form):
    """When an animal leaves."""

    ship_date = forms.DateTimeField(
        label="Leaves at",
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text="Date and time in UTC, within a year from now.",
    )

    def clean_ship_date(self) -> datetime:
        """Refuse a date that is likely mistyped."""
        ship_date: datetime = self.cleaned_data["ship_date"]
        if abs(ship_date - timezone.now()) > A_YEAR:
            raise ValidationError("This is more than a year from now. Choose another date.")
        return ship_date


@dataclass(frozen=True)
class Question:
    """What a page asks."""

    title: str
    button: str
    warning: str
    danger: bool = False


def ask(
    pages: PetstoreModelAdmin,
    request: HttpRequest,
    question: Question,
    form: forms.Form,
    rows: Sequence[tuple[int, str]],
    *,
    back: str,
    action: str = "",
) -> HttpResponse:
    """Return the page. `rows` are ids and words; `action` names the list's action that gets them again."""
    request.current_app = pages.admin_site.name  # As every page of the admin does.
    context = {
        **pages.admin_site.each_context(request),
        "opts": pages.opts,
        "title": question.title,
        "question": question,
        "form": form,
        "rows": rows,
        "back": back,
        "action": action,
        "action_checkbox_name": ACTION_CHECKBOX_NAME,
        "confirmed": CONFIRMED,
    }
    return TemplateResponse(request, "admin/inventory/ask.html", context)


def answered(request: HttpRequest, form_class: type[forms.Form]) -> forms.Form:
    """Return the form as it was filled in on the page that asks, or an empty one."""
    return form_class(request.POST if CONFIRMED in request.POST else None)
