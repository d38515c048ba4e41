"""The navigation, the account menu and the environment label."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

# Each group of the navigation lists its pages as (model, title, icon, keywords for the command palette).
PAGES = {
    "Shop": [
        ("inventory.order", "Orders", "receipt_long", "ship deliver cancel return refund"),
        ("inventory.pet", "Pets", "pets", ""),
        ("inventory.category", "Categories", "category", ""),
    ],
    "Customers": [
        ("accounts.account", "Accounts", "storefront", "customers suspend invite members"),
        ("accounts.apikey", "API keys", "key", "tokens ban unban rotate revoke"),
        ("accounts.plan", "Plans", "speed", "limits quota"),
        ("accounts.event", "Events", "rss_feed", ""),
        ("accounts.rejection", "Rejected requests", "help", "rejections 401 403 429 banned"),
        ("health.incident", "Incidents", "campaign", "outage status"),
    ],
    "Staff": [
        ("auth.user", "Staff", "badge", "users colleagues 2fa password"),
        ("auth.group", "Roles", "group", "permissions"),
        ("backoffice.auditentry", "Audit trail", "history", "log history"),
    ],
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
                "keywords": keywords,
            }
            for model, title, icon, keywords in pages
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
