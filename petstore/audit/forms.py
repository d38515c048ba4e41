"""Plain forms for actions, which the pages of staff and of customers share."""

from typing import Any

from django import forms

from petstore.audit import Actor
from petstore.observability.redaction import redact


class ActionForm(forms.Form):
    """Confirms an action. Placeholders in its texts stand for the row, or for the number of rows."""

    verb = ""  # The name of the page. By default also of the method that `save` calls.
    relation = ""  # The page of an object changes a row of this relation.
    title = button = ""
    warning = ""
    danger = False
    success = ""

    def __init__(self, *args: Any, row: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row

    def save(self, by: Actor) -> Any:
        return getattr(self.row, self.verb)(**self.cleaned_data, by=by)


class ReasonForm(ActionForm):
    reason = forms.CharField(max_length=255, help_text="Recorded in the history.")

    def clean_reason(self) -> str:
        """Redact recognizable secrets, because the history is append-only."""
        return redact(self.cleaned_data["reason"])
