"""Form fields and widgets, and forms that preserve untouched text byte for byte."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect
from django.utils.functional import cached_property
from django.utils.text import normalize_newlines
from unfold.widgets import UnfoldAdminTextareaWidget


class SafeAutocompleteSelect(AutocompleteSelect):
    """Renders an invalid ID as no selection, where Django's widget raises."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, OverflowError):
            return super().optgroups(name, [], attr)


class MultilineField(forms.CharField):
    """Normalizes the CRLF that browsers send to LF, so that `max_length` counts a line break once."""

    widget = UnfoldAdminTextareaWidget

    def to_python(self, value: Any) -> Any:
        return super().to_python(normalize_newlines(value) if isinstance(value, str) else value)


def is_untouched(submitted: str, stored: str, widget: forms.Widget) -> bool:
    """Whether a browser would submit this value if the user left the field alone.

    An `<input>` drops line breaks and a `<textarea>` sends CRLF (HTML sections 4.10.5.1.2 and 4.10.11).
    """
    submitted, stored = normalize_newlines(submitted), normalize_newlines(stored)
    if isinstance(widget, forms.Textarea):
        return submitted in {stored, stored.removeprefix("\n")}  # HTML parsers drop a leading line feed.
    if isinstance(widget, forms.EmailInput | forms.URLInput):
        submitted, stored = submitted.strip(), stored.strip()
    return submitted.replace("\n", "") == stored.replace("\n", "")


def preserve_untouched(form_class: type[Any]) -> type[Any]:
    """Return the form class, changed to keep the stored value of every untouched text field."""

    class PreservingForm(form_class):  # type: ignore[misc]  # A dynamic base class.
        @cached_property
        def untouched(self) -> dict[str, str]:
            """Map the names of untouched text fields to their stored values."""
            untouched = {}
            for name, field in self.fields.items():
                if not isinstance(field, forms.CharField):
                    continue
                stored = self.get_initial_for_field(field, name)
                if isinstance(stored, str) and is_untouched(self[name].data or "", stored, field.widget):
                    untouched[name] = stored
            return untouched

        @cached_property
        def changed_data(self) -> list[str]:
            return [name for name in super().changed_data if name not in self.untouched]

        def clean(self) -> Any:
            for name in self.untouched:
                self.errors.pop(name, None)
            self.cleaned_data |= self.untouched
            return super().clean()

    return PreservingForm
