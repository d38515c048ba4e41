"""Text of several lines in forms."""

import re
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget


class MultilineField(forms.CharField):
    """Holds line breaks as LF, which `max_length` counts once, as browsers do.

    Browsers send each as CRLF (HTML, "constructing the entry list").
    """

    widget = UnfoldAdminTextareaWidget

    def to_python(self, value: Any) -> Any:
        return super().to_python(re.sub("\r\n?", "\n", value) if isinstance(value, str) else value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.to_python(initial), data)
