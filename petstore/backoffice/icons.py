"""Loads templates with icons that screen readers skip, because an icon's text is its name in the font."""

import re
from typing import Any

from django.template.loaders import app_directories

# A clickable icon is a control. It has a name of its own (keyboard.js).
ICON = re.compile(r"<(span|div) (?=[^>]*\bmaterial-symbols-outlined\b)(?![^>]*x-on:click)")


class IconHidingLoader(app_directories.Loader):
    def get_contents(self, origin: Any) -> str:
        return ICON.sub(r'<\1 aria-hidden="true" ', super().get_contents(origin))
