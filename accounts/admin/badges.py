"""How a state, a limit and a time look to staff: a badge, a bar, an age. Each says it in words as well."""

from datetime import datetime, timedelta

from django.template.loader import render_to_string
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from accounts.events.warnings import THRESHOLDS
from accounts.models import ApiKey, PlanCode
from petstore.backoffice.wording import percent

SOON = timedelta(days=7)  # A key that ends within it is marked.

# Unfold's names of colours. Each badge carries words, too.
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
    """Return the name of a key's state, for its colour, and its words."""
    state = key.state(now)
    if state != "active":
        return state, state.capitalize()
    if key.account.suspended_at is not None:
        return "suspended", "Account suspended"
    if ban_end := key.ban_end(now):
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
    """Return how long ago something was, with the exact time as a tooltip."""
    if at is None:
        return SafeString("never")
    text = "just now" if now - at < timedelta(minutes=1) else f"{timesince(at, now, depth=1)} ago"
    title = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), title, text)


def bar(used: int, limit: int) -> dict[str, str]:
    """Return how a share of a limit is drawn, and its words."""
    share = used / limit
    return {
        "width": f"{min(share, 1):.1%}",
        "percent": percent(share),
        "text": f"{used:,} of {limit:,}",
        # Customers are warned from the same share on.
        "level": "full" if used >= limit else "high" if used * 100 >= THRESHOLDS[0] * limit else "low",
    }


def usage_bar(used: int, limit: int) -> SafeString:
    return render_to_string("admin/accounts/bar.html", bar(used, limit))
