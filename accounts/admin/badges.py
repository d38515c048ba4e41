"""Badges, usage bars and relative times. Their text repeats the information in colours and lengths."""

from datetime import datetime, timedelta

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from accounts.events.warnings import THRESHOLDS
from accounts.models import ApiKey, PlanCode
from petstore.text import format_percent

# Values are label types of Unfold.
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


def build_state_badge(key: ApiKey, now: datetime) -> dict[str, str]:
    state, text = key.describe_state(now)
    return {"type": STATE_COLOURS[state], "text": text}


def render_age(at: datetime | None, now: datetime) -> SafeString:
    if at is None:
        return SafeString("never")
    text = "just now" if now - at < timedelta(minutes=1) else f"{timesince(at, now, depth=1)} ago"
    title = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), title, text)


def build_usage_bar(used: int, limit: int) -> dict[str, str]:
    level = "low"
    if used * 100 >= THRESHOLDS[0] * limit:  # Customers get their first warning here.
        level = "full" if used >= limit else "high"
    width, percent = f"{min(used / limit, 1):.1%}", format_percent(used / limit)
    return {"width": width, "percent": percent, "text": f"{used:,} of {limit:,}", "level": level}


def render_usage_bar(used: int, limit: int) -> SafeString:
    return render_to_string("admin/accounts/usage_bar.html", build_usage_bar(used, limit))
