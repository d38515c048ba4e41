"""Change forms that reject edit conflicts and preserve untouched text, and the widgets of Unfold."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect
from django.forms.widgets import ChoiceWidget
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.functional import cached_property
from django.utils.text import normalize_newlines
from unfold import widgets

from petstore.audit import Action
from petstore.audit.models import AuditEntry

VERSION_FIELD = "_version"
WIDGETS: dict[type[forms.Widget], Any] = {
    forms.CheckboxInput: widgets.UnfoldBooleanWidget,
    forms.CheckboxSelectMultiple: widgets.UnfoldAdminCheckboxSelectMultipleWidget,
    forms.ClearableFileInput: widgets.UnfoldAdminFileFieldWidget,
    forms.DateTimeInput: widgets.UnfoldAdminTextInputWidget,
    forms.EmailInput: widgets.UnfoldAdminEmailInputWidget,
    forms.NumberInput: widgets.UnfoldAdminIntegerFieldWidget,
    forms.PasswordInput: widgets.UnfoldAdminPasswordWidget,
    forms.Select: widgets.UnfoldAdminSelectWidget,
    forms.Textarea: widgets.UnfoldAdminTextareaWidget,
    forms.TextInput: widgets.UnfoldAdminTextInputWidget,
}


def use_unfold_widgets(form: Any) -> None:
    """Replace Django's widgets in the form with those of Unfold."""
    for field in form.fields.values():
        plain = field.widget
        if widget_class := WIDGETS.get(type(plain)):
            field.widget = widget_class(plain.attrs)
            field.widget.is_required = plain.is_required
            if isinstance(plain, ChoiceWidget):
                field.widget.choices = plain.choices
            elif isinstance(plain, forms.DateTimeInput):
                field.widget.input_type = plain.input_type


class SafeAutocompleteSelect(AutocompleteSelect):
    """Renders an invalid ID as no selection, where Django's widget raises."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, OverflowError):
            return super().optgroups(name, [], attr)


class MultilineField(forms.CharField):
    """Normalizes the CRLF that browsers send to LF, so that `max_length` counts a line break once."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> Any:
        return super().to_python(normalize_newlines(value) if isinstance(value, str) else value)


class EditForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Rejects a save if the row has changed since the form was loaded (optimistic locking).

    `version` is a keyed hash of the stored values of the form's fields and of rows edited with it. Other
    fields are left out: a key's last use changes every minute without conflicting with any edit. Text that
    the user left alone keeps its stored value byte for byte, although browsers change line breaks.
    """

    @cached_property
    def version(self) -> str:
        values = [(name, serialize(self.initial[name])) for name in sorted(self.initial)]
        values += getattr(self.instance, "get_related_values", dict)().items()
        return salted_hmac("petstore edit", repr(values), algorithm="sha256").hexdigest()

    @cached_property
    def untouched(self) -> dict[str, str]:
        """Map the names of untouched text fields to their stored values."""
        untouched: dict[str, str] = {}
        if self.instance.pk is None:
            return untouched
        for name, field in self.fields.items():
            stored = self.get_initial_for_field(field, name)
            is_text = isinstance(field, forms.CharField) and isinstance(stored, str)
            if is_text and is_untouched(self[name].data or "", stored, field.widget):
                untouched[name] = stored
        return untouched

    @cached_property
    def changed_data(self) -> list[str]:
        return [name for name in super().changed_data if name not in self.untouched]

    def clean(self) -> dict[str, Any]:
        for name in self.untouched:
            self.errors.pop(name, None)
        self.cleaned_data |= self.untouched
        cleaned_data = super().clean() or self.cleaned_data
        posted = self.data.get(VERSION_FIELD)
        if posted is not None and not constant_time_compare(posted.encode(), self.version.encode()):
            self.add_error(None, self.describe_conflict())
        return cleaned_data

    def describe_conflict(self) -> str:
        entries = AuditEntry.objects.for_object(self.instance).filter(action=Action.CHANGED)
        if updated_at := getattr(self.instance, "updated_at", None):  # Clients of the API leave no entries.
            entries = entries.filter(at__gte=updated_at)
        entry = entries.first()
        actor = (entry and entry.actor_name) or "Another user"
        stored = "; ".join(
            f"{self.fields[name].label or name}: {self.display_initial(name)}"
            for name in self.changed_data
            if name in self.initial
        )
        stored_values = f" Stored now: {stored}." if stored else ""
        return (
            f"{actor} changed this while you had it open. Your changes were not saved.{stored_values} "
            "Check your input below and save again to overwrite theirs."
        )

    def display_initial(self, name: str) -> str:
        value, field = self.initial[name], self.fields[name]
        if isinstance(value, list):
            value = ", ".join(map(str, value))
        elif isinstance(field, forms.ModelChoiceField) and field.queryset is not None:
            value = field.queryset.filter(pk=value).first()
        return "nothing" if value in (None, "") else str(value)[:200]


def serialize(value: Any) -> str:
    if isinstance(value, list):
        return repr(sorted(str(getattr(item, "pk", item)) for item in value))
    return repr(value)


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
