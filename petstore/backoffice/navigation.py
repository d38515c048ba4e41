"""What unfold asks for to draw the frame of a page: the navigation and the environment's label.

`settings.UNFOLD` names both.
"""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

# Groups of the navigation: a title, and for each page its title, icon and model.
PAGES = (
    (
        "Shop",
        (
            ("Orders", "receipt_long", "inventory.order"),
            ("Pets", "pets", "inventory.pet"),
            ("Categories", "category", "inventory.category"),
        ),
    ),
    (
        "Customers",
        (
            ("Accounts", "storefront", "accounts.account"),
            ("API keys", "key", "accounts.apikey"),
            ("Plans", "speed", "accounts.plan"),
            ("Why refused?", "help", "accounts.refusal"),
        ),
    ),
    (
        "Staff",
        (
            ("Staff", "badge", "auth.user"),
            ("Groups", "group", "auth.group"),
            ("Audit trail", "history", "backoffice.auditentry"),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links that the member of staff may follow."""
    home = {"title": "Home", "icon": "home", "link": reverse("admin:index")}
    groups: list[dict[str, Any]] = [{"items": [home]}]
    for title, pages in PAGES:
        items = [
            {"title": name, "icon": icon, "link": reverse(f"admin:{model.replace('.', '_')}_changelist")}
            for name, icon, model in pages
            if may_view(request, model)
        ]
        if items:
            groups.append({"title": title, "separator": True, "items": items})
    return groups


def may_view(request: HttpRequest, model: str) -> bool:
    """Tell whether the member of staff may see, or change, a model's rows."""
    app, name = model.split(".")
    user = request.user
    return user.has_perm(f"{app}.view_{name}") or user.has_perm(f"{app}.change_{name}")


def account_links(request: HttpRequest) -> list[dict[str, str]]:
    """Return what the member of staff may do about their own sign-in."""
    return [
        {"title": "Two-factor sign-in", "link": reverse("admin:two_factor")},
        {"title": "Change password", "link": reverse("admin:password_change")},
    ]


def environment(request: HttpRequest) -> list[str]:
    """Return the label that tells production from staging, and unfold's name of its colour."""
    return ["Staging", "warning"] if settings.ENVIRONMENT == "staging" else ["Production", "danger"]
