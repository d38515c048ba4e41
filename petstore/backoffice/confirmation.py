"""Confirmation pages: they ask before an action, and for its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from unfold.widgets import UnfoldAdminTextInputWidget

from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.observability.redaction import redact

CONFIRMED = "confirmed"
Response = TypeVar("Response", bound=HttpResponse | None)


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=255,
        widget=UnfoldAdminTextInputWidget(attrs={"autofocus": True}),
        help_text="Recorded in the history.",
    )

    def clean_reason(self) -> str:
        """Redact pasted keys and passwords: the history is append-only."""
        return redact(self.cleaned_data["reason"])


@dataclass(frozen=True)
class Confirmation:
    title: str
    button: str
    warning: str  # May be empty.
    danger: bool = False
    downloads_file: bool = False  # The page stays open and may be submitted again at once.

    def about(self, subject: str) -> Confirmation:
        """Fill the placeholder in the title."""
        return replace(self, title=self.title.format(subject))


def confirm(
    admin: PetstoreModelAdmin,
    request: HttpRequest,
    question: Confirmation,
    form_class: type[forms.Form],
    act: Callable[[dict[str, Any]], Response],
    *,
    back: str,
    rows: Sequence[tuple[int, str]] = (),
    action: str = "",
    **context: Any,
) -> Response | HttpResponse:
    """Call `act` with the cleaned data once the form is valid; until then, show the page.

    A ValidationError from `act` is shown on the page. `rows` are ids and labels; `action` is the changelist
    action that receives them again. `choices` in the context replaces the one button: values of the form's
    field `choice`, with labels.
    """
    submitted = CONFIRMED in request.POST if action else request.method == "POST"
    form = form_class(request.POST if submitted else None)
    if form.is_valid():
        try:
            return act(form.cleaned_data)
        except ValidationError as error:
            form.add_error(None, error)
    return admin.page(
        request, "confirm", question.title,
        question=question, form=form, back=back, rows=rows, action=action,
        checkbox=ACTION_CHECKBOX_NAME, confirmed=CONFIRMED, **context,
    )  # fmt: skip
