"""Fields of forms: text of several lines, text that staff leave alone, and choices that are searched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect
from django.utils.functional import cached_property
from unfold.widgets import UnfoldAdminTextareaWidget


class SafeAutocompleteSelect(AutocompleteSelect):
    """Shows a value that can't be an id as nothing chosen; Django's own raises while it is shown again."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, OverflowError):
            return super().optgroups(name, [], attr)


class MultilineField(forms.CharField):
    """Holds line breaks as LF, which `max_length` counts once, as browsers do.

    Browsers send each as CRLF (HTML, "constructing the entry list").
    """

    widget = UnfoldAdminTextareaWidget

    def to_python(self, value: Any) -> Any:
        return super().to_python(re.sub("\r\n?", "\n", value) if isinstance(value, str) else value)


def is_untouched(sent: str, stored: str, widget: forms.Widget) -> bool:
    """Tell whether a browser sends this for the stored text if nobody edits it.

    It does not send back all that it was given: an `<input>` drops line breaks, a `<textarea>` sends each
    as CRLF (HTML sections 4.10.5.1.2 and 4.10.11). Django's fields then trim what arrives.
    """
    sent, stored = (text.replace("\r\n", "\n").replace("\r", "\n") for text in (sent, stored))
    if isinstance(widget, forms.Textarea):
        return sent in {stored, stored.removeprefix("\n")}  # HTML parsers drop one that follows the tag.
    if isinstance(widget, forms.EmailInput | forms.URLInput):
        sent, stored = sent.strip(), stored.strip()
    return sent.replace("\n", "") == stored.replace("\n", "")


def keeping(form_class: type[Any]) -> type[Any]:
    """Return the form, whose untouched text fields count as unchanged and stay as stored, byte for byte."""

    class KeepingForm(form_class):  # type: ignore[misc]  # A class that is known at run time only.
        @cached_property
        def untouched(self) -> dict[str, str]:
            texts = [(name, one) for name, one in self.fields.items() if isinstance(one, forms.CharField)]
            stored = {name: self.get_initial_for_field(field, name) for name, field in texts}
            return {
                name: stored[name]
                for name, field in texts
                if isinstance(stored[name], str)
                and is_untouched(self[name].data or "", stored[name], field.widget)
            }

        @cached_property
        def changed_data(self) -> list[str]:
            return [name for name in super().changed_data if name not in self.untouched]

        def clean(self) -> Any:
            for name in self.untouched:
                self.errors.pop(name, None)
            self.cleaned_data |= self.untouched
            return super().clean()

    return KeepingForm
