"""The page that asks before something is done, for its reason if there is one to give."""

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
Answer = TypeVar("Answer", bound=HttpResponse | None)


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=255,
        widget=UnfoldAdminTextInputWidget(attrs={"autofocus": True}),
        help_text="It is kept in the history.",
    )

    def clean_reason(self) -> str:
        """Cut a key or a password that was pasted: nobody can take it out of the history again."""
        return redact(self.cleaned_data["reason"])


@dataclass(frozen=True)
class Confirmation:
    title: str
    button: str
    warning: str  # Or nothing, where nothing is at stake.
    danger: bool = False
    downloads_file: bool = False  # The page stays, and may ask again at once.

    def about(self, what: str) -> Confirmation:
        """Return the question with what it is about in its title."""
        return replace(self, title=self.title.format(what))


def confirm(
    admin: PetstoreModelAdmin,
    request: HttpRequest,
    question: Confirmation,
    form_class: type[forms.Form],
    act: Callable[[dict[str, Any]], Answer],
    *,
    back: str,
    rows: Sequence[tuple[int, str]] = (),
    action: str = "",
    **context: Any,
) -> Answer | HttpResponse:
    """Return the page, or what `act` returns once the form came back from it without a mistake.

    `act` raises ValidationError for what can't be done; the page says it. `rows` are ids and words;
    `action` names the list's action that gets these rows again. `choices`, in the context, are buttons
    instead of the question's one: values of the form's `choice`, and their words.
    """
    answered = CONFIRMED in request.POST if action else request.method == "POST"
    form = form_class(request.POST if answered else None)
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
