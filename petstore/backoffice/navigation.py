"""The frame of every page: the navigation, the environment's label, and the other settings of Unfold."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse, reverse_lazy

# Groups of the navigation; for each page its model, title and icon.
PAGES = {
    "Shop": [
        ("inventory.order", "Orders", "receipt_long"),
        ("inventory.pet", "Pets", "pets"),
        ("inventory.category", "Categories", "category"),
    ],
    "Customers": [
        ("accounts.account", "Accounts", "storefront"),
        ("accounts.apikey", "API keys", "key"),
        ("accounts.plan", "Plans", "speed"),
        ("accounts.event", "Events", "rss_feed"),
        ("accounts.refusal", "Why refused?", "help"),
    ],
    "Staff": [
        ("auth.user", "Staff", "badge"),
        ("auth.group", "Roles", "group"),
        ("backoffice.auditentry", "Audit trail", "history"),
    ],
}


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links that the member of staff may follow."""
    home = {"title": "Home", "icon": "home", "link": reverse("admin:index")}
    groups: list[dict[str, Any]] = [{"items": [home]}]
    for group, pages in PAGES.items():
        items = [
            {"title": title, "icon": icon, "link": reverse(f"admin:{model.replace('.', '_')}_changelist")}
            for model, title, icon in pages
            if may_view(request, model)
        ]
        if items:
            groups.append({"title": group, "separator": True, "items": items})
    return groups


def may_view(request: HttpRequest, model: str) -> bool:
    """Tell whether the member of staff may see, or change, a model's rows."""
    app, name = model.split(".")
    return any(request.user.has_perm(f"{app}.{verb}_{name}") for verb in ("view", "change"))


def environment(request: HttpRequest) -> list[str]:
    """Return the label that tells production from staging, and unfold's name of its colour.

    Without https it is neither, but somebody's own machine.
    """
    if not settings.HTTPS:
        return ["Local", "info"]
    return ["Staging", "warning"] if settings.ENVIRONMENT == "staging" else ["Production", "danger"]


def static(path: str) -> Callable[[Any], str]:
    """Return what finds the address of a file of ours, once a request asks for it."""

    def address(request: Any) -> str:
        from django.templatetags.static import static  # With the settings it would load all of templates.

        return static(path)

    return address


SCRIPTS = ("expressions", "keyboard", "labels", "key-text", "filters", "palette")
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
    "ACCOUNT": {
        "navigation": [
            {"title": "Two-factor sign-in", "link": reverse_lazy("admin:two_factor")},
            {"title": "Change password", "link": reverse_lazy("admin:password_change")},
        ]
    },
    "STYLES": [static("petstore/backoffice.css")],
    "SCRIPTS": [static(f"petstore/{name}.js") for name in SCRIPTS],
}
