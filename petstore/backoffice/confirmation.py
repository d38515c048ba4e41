"""Confirmation pages, which ask for consent to an action and for its reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

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
    widget = UnfoldAdminTextInputWidget(attrs={"autofocus": True})
    reason = forms.CharField(max_length=255, widget=widget, help_text="Recorded in the history.")

    def clean_reason(self) -> str:
        """Redact recognizable secrets, because the history is append-only."""
        return redact(self.cleaned_data["reason"])


@dataclass(frozen=True)
class Confirmation:
    title: str
    button: str
    warning: str  # May be empty.
    danger: bool = False
    downloads_file: bool = False  # The page stays open and may be submitted again at once.

    def with_subject(self, subject: str) -> Self:
        """Fill the placeholders in the title and on the button."""
        return replace(self, title=self.title.format(subject), button=self.button.format(subject))


def confirm(
    model_admin: PetstoreModelAdmin,
    request: HttpRequest,
    confirmation: Confirmation,
    form_class: Callable[[Any], forms.Form],
    act: Callable[[dict[str, Any]], Response],
    *,
    back: str,
    rows: Sequence[tuple[int, str]] = (),
    action: str = "",
    **context: Any,
) -> Response | HttpResponse:
    """Show the confirmation page until its form is valid, then call `act` with the cleaned data.

    The page also shows a ValidationError that `act` raises. `rows` are IDs and labels. `action` names the
    changelist action to which the page submits them again. If the form has a field `choice`, the page has a
    button for each of `choices` in the context (values and labels).
    """
    is_submitted = CONFIRMED in request.POST if action else request.method == "POST"
    form = form_class(request.POST if is_submitted else None)
    if form.is_valid():
        try:
            return act(form.cleaned_data)
        except ValidationError as error:
            form.add_error(None, error)
    return model_admin.render_page(
        request, "confirm", confirmation.title, confirmation=confirmation, form=form, back=back, rows=rows,
        action=action, checkbox=ACTION_CHECKBOX_NAME, confirmed=CONFIRMED, **context,
    )  # fmt: skip
