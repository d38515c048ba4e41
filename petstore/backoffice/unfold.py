"""The settings of Unfold, which makes the pages of the back office.

Whatever reads a setting reads these, so what they need is named here and loaded by the first page.
"""

from collections.abc import Callable
from typing import Any


def static(path: str) -> Callable[[Any], str]:
    """Return what finds the address of a file of ours, once a request asks for it."""

    def address(request: Any) -> str:
        from django.templatetags.static import static  # With the settings it would load all of templates.

        return static(path)

    return address


SCRIPTS = ("expressions", "keyboard", "labels", "key-text", "send-once", "filters", "palette")
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Pet Store",
    "SITE_HEADER": "Pet Store",
    "SITE_SUBHEADER": "Back office",
    "SITE_SYMBOL": "pets",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": static("petstore/favicon.svg")}],
    "SHOW_BACK_BUTTON": True,
    "SHOW_VIEW_ON_SITE": False,
    "ENVIRONMENT": "petstore.backoffice.navigation.environment",
    "DASHBOARD_CALLBACK": "petstore.backoffice.dashboard.home",
    "SIDEBAR": {"navigation": "petstore.backoffice.navigation.navigation"},
    "ACCOUNT": {"navigation": "petstore.backoffice.navigation.account_menu"},
    "STYLES": [static("petstore/backoffice.css")],
    "SCRIPTS": [static(f"petstore/{name}.js") for name in SCRIPTS],
}
