"""The renderer of forms: labels have no colon, and after an error the first wrong field has the focus."""

from typing import Any

from django.forms import BoundField
from django.forms.renderers import TemplatesSetting


class FocusedBoundField(BoundField):
    def build_widget_attrs(self, attrs: Any, widget: Any = None) -> Any:
        attrs = super().build_widget_attrs(attrs, widget)
        first_error = next((name for name in self.form.fields if name in self.form.errors), None)
        return attrs | {"autofocus": True} if self.name == first_error else attrs

    def label_tag(
        self, contents: Any = None, attrs: Any = None, label_suffix: Any = "", tag: Any = None
    ) -> Any:
        return super().label_tag(contents, attrs, label_suffix or "", tag)


class FormRenderer(TemplatesSetting):  # Widgets use TEMPLATES, too.
    bound_field_class = FocusedBoundField
