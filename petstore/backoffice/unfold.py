"""Settings for Unfold. Dotted paths and lazy URLs keep the settings cheap to import."""

from collections.abc import Callable
from typing import Any


def static(path: str) -> Callable[[Any], str]:
    """Return a callback that resolves a static file's URL at request time."""

    def resolve_url(request: Any) -> str:
        from django.templatetags.static import static  # Too expensive to import with the settings.

        return static(path)

    return resolve_url


SCRIPTS = ("expressions", "keyboard", "labels", "key-text", "send-once", "filters", "palette")
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Pet Store",
    "SITE_HEADER": "Pet Store",
    "SITE_SUBHEADER": "Back office",
    "SITE_SYMBOL": "pets",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": static("petstore/favicon.svg")}],
    "SHOW_BACK_BUTTON": True,
    "SHOW_VIEW_ON_SITE": False,
    "ENVIRONMENT": "petstore.backoffice.navigation.environment_callback",
    "DASHBOARD_CALLBACK": "petstore.backoffice.dashboard.dashboard_callback",
    "SIDEBAR": {"navigation": "petstore.backoffice.navigation.get_navigation"},
    "ACCOUNT": {"navigation": "petstore.backoffice.navigation.get_account_menu"},
    "STYLES": [static("petstore/backoffice.css")],
    "SCRIPTS": [static(f"petstore/{name}.js") for name in SCRIPTS],
}
