"""Badges, usage bars and relative times. Each has its meaning as text as well."""

from datetime import datetime, timedelta

from django.template.loader import render_to_string
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from accounts.events.warnings import THRESHOLDS
from accounts.models import ApiKey, PlanCode
from petstore.backoffice.text import percent

SOON = timedelta(days=7)  # Keys that expire within it get a badge.

# Names of Unfold's label types.
STATE_COLOURS = {
    "active": "success",
    "soon": "warning",
    "expired": "default",
    "revoked": "default",
    "banned": "danger",
    "suspended": "danger",
}
PLAN_COLOURS: dict[str, str] = {
    PlanCode.FREE: "default",
    PlanCode.PRO: "info",
    PlanCode.BUSINESS: "primary",
    PlanCode.ENTERPRISE: "success",
}


def key_state(key: ApiKey, now: datetime) -> tuple[str, str]:
    """Return the state's name in STATE_COLOURS, and its text."""
    state = key.get_state(now)
    if state != "active":
        return state, state.capitalize()
    if key.account.suspended_at is not None:
        return "suspended", "Account suspended"
    if ban_end := key.get_ban_end(now):
        return "banned", f"Banned until {exact(ban_end)}"
    if key.expires_at is not None and key.expires_at <= now + SOON:
        return "soon", "Expires soon"
    return "active", "Active"


def state_badge(key: ApiKey, now: datetime) -> dict[str, str]:
    state, text = key_state(key, now)
    return {"type": STATE_COLOURS[state], "text": text}


def exact(at: datetime) -> str:
    return date_format(at, "DATETIME_FORMAT")


def age(at: datetime | None, now: datetime) -> SafeString:
    if at is None:
        return SafeString("never")
    text = "just now" if now - at < timedelta(minutes=1) else f"{timesince(at, now, depth=1)} ago"
    title = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), title, text)


def bar(used: int, limit: int) -> dict[str, str]:
    share = used / limit
    return {
        "width": f"{min(share, 1):.1%}",
        "percent": percent(share),
        "text": f"{used:,} of {limit:,}",
        # The first threshold is the one at which customers get a warning.
        "level": "full" if used >= limit else "high" if used * 100 >= THRESHOLDS[0] * limit else "low",
    }


def usage_bar(used: int, limit: int) -> SafeString:
    return render_to_string("admin/accounts/bar.html", bar(used, limit))
