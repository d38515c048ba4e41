"""The panels on the page of an account."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.utils import timezone

from accounts.admin.badges import (
    PLAN_COLOURS,
    build_state_badge,
    format_time,
    render_age,
    render_usage_bar,
)
from accounts.admin.base import MAX_PANEL_ROWS, annotate_requests_today, build_usage_chart, issue_key_url
from accounts.admin.timeline import (
    BAN_ICONS,
    MAX_TIMELINE,
    list_account_entries,
    list_key_entries,
    list_warning_entries,
)
from accounts.models import Account, ApiKey
from accounts.usage import reports
from petstore.backoffice.history import HistoryEntry
from petstore.backoffice.navigation import may_view

MAX_KEYS = 20


class Panel(NamedTuple):
    """A panel that another app adds to the page, with entries for the timeline."""

    template: str
    rows: list[Any]
    entries: list[HistoryEntry]


# Other apps append to this. A factory returns None if the user may not view the panel.
panel_factories: list[Callable[[Account, HttpRequest], Panel | None]] = []


def build_panels(account: Account, request: HttpRequest) -> dict[str, Any]:
    """Build the template context of the panels that the user may view."""
    now = timezone.now()
    may_view_keys = may_view(request, "accounts.apikey")
    may_view_events = may_view(request, "accounts.event")
    extra_panels = [panel for factory in panel_factories if (panel := factory(account, request))]

    timeline: list[HistoryEntry] = []
    key_context: dict[str, Any] = {}
    if may_view_keys:
        timeline += list_key_entries(account)
        bans = [entry for entry in timeline if entry.icon in BAN_ICONS.values()]
        key_context = build_key_panels(account, now) | {"bans": bans[:MAX_PANEL_ROWS]}
    timeline += list_account_entries(account)
    if may_view_events:
        timeline += list_warning_entries(account)
    for panel in extra_panels:
        timeline += panel.entries

    return key_context | {
        "name": str(account),
        "suspension": describe_suspension(account),
        "plan_badge": {"type": PLAN_COLOURS[account.plan_id], "text": str(account.plan)},
        "limits": account.limits,
        "usage_bar": render_usage_bar(account.get_requests_on(now.date()), account.limits.per_day),
        "usage_chart": build_usage_chart(now, key__account=account),
        "may_view_keys": may_view_keys,
        "may_view_events": may_view_events,
        "may_view_rejections": may_view(request, "accounts.refusal"),
        "may_issue": request.user.has_perm("accounts.add_apikey") and not account.suspended_at,
        "may_change": request.user.has_perm("accounts.change_account"),
        "issue_key_url": issue_key_url(account),
        "rejections": account.refusals.select_related("key")[:MAX_PANEL_ROWS],
        "extra_panels": extra_panels,
        "timeline": sorted(timeline, key=lambda entry: entry.at, reverse=True)[:MAX_TIMELINE],
        "max_timeline": MAX_TIMELINE,
    }


def describe_suspension(account: Account) -> str:
    if account.suspended_at is None:
        return ""
    since, reason = format_time(account.suspended_at), account.suspended_reason
    return f"Suspended since {since}. Requests with its keys are refused. Reason: {reason}"


def build_key_panels(account: Account, now: datetime) -> dict[str, Any]:
    keys = annotate_requests_today(account.keys.select_related("standing"))
    newest = list(keys[: MAX_KEYS + 1])
    banned = keys.filter(reports.is_banned(now))[:MAX_KEYS]
    return {
        "keys": [build_key_row(key, account, now) for key in newest[:MAX_KEYS]],
        "has_more_keys": len(newest) > MAX_KEYS,
        "banned_keys": [build_key_row(key, account, now) for key in banned],
    }


def build_key_row(key: ApiKey, account: Account, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "badge": build_state_badge(key, now),
        "last_use": render_age(key.last_used_at, now),
        "usage_bar": render_usage_bar(getattr(key, "requests_today", 0), account.limits.per_day),
    }
