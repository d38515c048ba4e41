"""The navigation, the account menu and the environment label."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

# Each group of the navigation lists its pages as (model, title, icon).
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
        ("health.incident", "Incidents", "campaign"),
    ],
    "Staff": [
        ("auth.user", "Staff", "badge"),
        ("auth.group", "Roles", "group"),
        ("backoffice.auditentry", "Audit trail", "history"),
    ],
}
# Other words by which the command palette finds a page.
KEYWORDS = {
    "inventory.order": "ship deliver cancel return refund",
    "accounts.account": "customers suspend",
    "accounts.apikey": "tokens ban unban rotate revoke",
    "accounts.plan": "limits quota",
    "accounts.refusal": "rejections 401 403 429 banned",
    "auth.user": "users colleagues 2fa password",
    "auth.group": "permissions",
    "backoffice.auditentry": "log history",
}


def get_navigation(request: HttpRequest) -> list[dict[str, Any]]:
    home = {"title": "Home", "icon": "home", "link": reverse("admin:index")}
    groups: list[dict[str, Any]] = [{"items": [home]}]
    for group, pages in PAGES.items():
        items = [
            {
                "title": title,
                "icon": icon,
                "link": reverse(f"admin:{model.replace('.', '_')}_changelist"),
                "keywords": KEYWORDS.get(model, ""),
            }
            for model, title, icon in pages
            if may_view(request, model)
        ]
        if items:
            groups.append({"title": group, "separator": True, "items": items})
    return groups


def get_account_menu(request: HttpRequest) -> list[dict[str, str]]:
    return [
        {
            "title": "Security",
            "link": reverse("mfa_index"),
            "keywords": "2fa mfa otp two-factor passkey codes",
        },
        {"title": "Change password", "link": reverse("account_change_password")},
    ]


def may_view(request: HttpRequest, model: str) -> bool:
    app, name = model.split(".")
    return request.user.has_perm(f"{app}.view_{name}") or request.user.has_perm(f"{app}.change_{name}")


def environment_callback(request: HttpRequest) -> list[str]:
    """Return the environment label and its Unfold colour."""
    if not settings.HTTPS:  # A developer's machine.
        return ["Demo" if settings.DEMO_KEY else "Local", "info"]
    return ["Staging", "warning"] if settings.ENVIRONMENT == "staging" else ["Production", "danger"]
