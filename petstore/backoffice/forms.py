"""Form fields and widgets, and forms that keep untouched text byte for byte."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect
from django.utils.functional import cached_property
from unfold.widgets import UnfoldAdminTextareaWidget


class SafeAutocompleteSelect(AutocompleteSelect):
    """Renders an invalid id as no selection, where Django's widget raises."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, OverflowError):
            return super().optgroups(name, [], attr)


class MultilineField(forms.CharField):
    """Normalizes the CRLF that browsers send to LF, so that `max_length` counts a line break once."""

    widget = UnfoldAdminTextareaWidget

    def to_python(self, value: Any) -> Any:
        return super().to_python(re.sub("\r\n?", "\n", value) if isinstance(value, str) else value)


def is_untouched(sent: str, stored: str, widget: forms.Widget) -> bool:
    """Whether a browser sends this value for an unedited field.

    An `<input>` drops line breaks and a `<textarea>` sends CRLF (HTML sections 4.10.5.1.2 and 4.10.11).
    """
    sent, stored = (text.replace("\r\n", "\n").replace("\r", "\n") for text in (sent, stored))
    if isinstance(widget, forms.Textarea):
        return sent in {stored, stored.removeprefix("\n")}  # HTML parsers drop a line feed after the tag.
    if isinstance(widget, forms.EmailInput | forms.URLInput):
        sent, stored = sent.strip(), stored.strip()
    return sent.replace("\n", "") == stored.replace("\n", "")


def preserve_untouched(form_class: type[Any]) -> type[Any]:
    """Return the form class with untouched text fields counted as unchanged and stored byte for byte."""

    class PreservingForm(form_class):  # type: ignore[misc]  # A dynamic base class.
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

    return PreservingForm
