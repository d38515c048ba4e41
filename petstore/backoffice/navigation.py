"""The frame of every page: the navigation, and the environment's label."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

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


def account_menu(request: HttpRequest) -> list[dict[str, str]]:
    """Return the links of a member of staff's own menu."""
    return [
        {"title": "Two-factor sign-in", "link": reverse("admin:two_factor")},
        {"title": "Change password", "link": reverse("admin:password_change")},
    ]


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
