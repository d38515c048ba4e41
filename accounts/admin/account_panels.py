"""The panels on the page of an account, and the entries of its timeline."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db.models import CharField
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts.actions import Action
from accounts.admin import badges
from accounts.admin.base import (
    MAX_PANEL_ROWS,
    annotate_requests_today,
    issue_key_url,
)
from accounts.admin.events import describe_event
from accounts.models import Account, ApiKey, Event, EventType
from accounts.models.api_keys import SERVICE
from accounts.quota.limits import to_datetime
from accounts.usage import reports
from accounts.usage.charts import build_usage_chart
from petstore.audit.models import AuditEntry
from petstore.backoffice.history import EntryFormatter, HistoryEntry
from petstore.backoffice.model_admin import change_url
from petstore.backoffice.navigation import may_view
from petstore.db.keysets import TwoFilterKey
from petstore.db.names import visible_name

MAX_KEYS = 20
MAX_TIMELINE = 30
MAX_TIMELINE_KEYS = 100
BAN_ICONS = {Action.BANNED: "gavel", Action.UNBANNED: "lock_open"}
KEY_ICONS = {Action.ISSUED: "key", Action.ROTATED: "autorenew", Action.REVOKED: "block"} | BAN_ICONS
KEY_ICONS[Action.NARROWED] = "compress"
MEMBER_ACTIONS = [action for action in Action if action.name.startswith(("MEMBER_", "INVITATION_"))]
SUSPENSION_ICONS = ("pause_circle", "play_circle")
ACCOUNT_ICONS: dict[str, str] = dict.fromkeys(MEMBER_ACTIONS, "group")
ACCOUNT_ICONS |= zip((Action.SUSPENDED, Action.SUSPENSION_LIFTED), SUSPENSION_ICONS, strict=True)
ACCOUNT_ICONS["added"] = "add_business"
WARNINGS = {EventType.QUOTA_REACHED: "Reached {}", EventType.KEY_EXPIRING: "Expires soon: {}"}


class Panel(NamedTuple):
    """A panel that another module adds to the page, with entries for the timeline."""

    template: str
    rows: list[Any]
    entries: list[HistoryEntry]


# Other modules append to this. A factory returns None if the user may not view the panel.
panel_factories: list[Callable[[Account, HttpRequest], Panel | None]] = []


def build_panels(account: Account, request: HttpRequest) -> dict[str, Any]:
    """Build the template context of the panels that the user may view."""
    now = timezone.now()
    recent_keys = reports.find_recent_keys(account, now)
    may_view_keys = may_view(request, "accounts.apikey")
    may_view_events = may_view(request, "accounts.event")
    extra_panels = [panel for factory in panel_factories if (panel := factory(account, request))]

    timeline: list[HistoryEntry] = []
    key_context: dict[str, Any] = {}
    if may_view_keys:
        timeline += list_key_entries(account, request)
        bans = [entry for entry in timeline if entry.icon in BAN_ICONS.values()]
        key_context = build_key_panels(account, recent_keys, now) | {"bans": bans[:MAX_PANEL_ROWS]}
    timeline += list_account_entries(account, request)
    if may_view_events:
        timeline += list_warning_entries(account)
    for panel in extra_panels:
        timeline += panel.entries

    return key_context | {
        "name": str(account),
        "plan_badge": {"type": badges.PLAN_COLOURS[account.plan_id], "text": str(account.plan)},
        "limits": account.limits,
        "usage_bar": badges.render_usage_bar(account.get_request_count(now.date()), account.limits.per_day),
        "usage_chart": build_usage_chart(now, key__pk__any_of=recent_keys),
        "may_view_keys": may_view_keys,
        "may_view_events": may_view_events,
        "may_view_rejections": may_view(request, "accounts.rejection"),
        "may_issue": request.user.has_perm("accounts.add_apikey") and not account.suspended_at,
        "may_change": request.user.has_perm("accounts.change_account"),
        "issue_key_url": issue_key_url(account),
        "rejections": account.rejections.select_related("key")[:MAX_PANEL_ROWS],
        "extra_panels": extra_panels,
        "timeline": sorted(timeline, key=lambda entry: entry.at, reverse=True)[:MAX_TIMELINE],
        "max_timeline": MAX_TIMELINE,
    }


def build_key_panels(account: Account, recent_keys: str, now: datetime) -> dict[str, Any]:
    keys = annotate_requests_today(account.keys.select_related("rate_limit_state"))
    newest = list(keys[: MAX_KEYS + 1])
    recent = ApiKey.objects.filter(pk__any_of=recent_keys).select_related("account", "rate_limit_state")
    banned = recent.filter(reports.banned_keys_q(now))[:MAX_KEYS]
    return {
        "keys": [build_key_row(key, account, now) for key in newest[:MAX_KEYS]],
        "has_more_keys": len(newest) > MAX_KEYS,
        "banned_keys": [(key, key.get_ban_end(now)) for key in banned],
    }


def build_key_row(key: ApiKey, account: Account, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "badge": badges.build_state_badge(key, now),
        "last_use": badges.render_age(key.last_used_at, now),
        "usage_bar": badges.render_usage_bar(getattr(key, "requests_today", 0), account.limits.per_day),
    }


# --- The timeline


def list_key_entries(account: Account, request: HttpRequest) -> list[HistoryEntry]:
    """List the newest entries of the newest keys, since entries have no index for their account."""
    ids = account.keys.values_list(Cast("pk", CharField()))[:MAX_TIMELINE_KEYS]
    entries = AuditEntry.objects.filter(model=ApiKey._meta.label_lower, object_id__in=ids)
    newest = list(entries.filter(action__in=KEY_ICONS)[:MAX_TIMELINE])
    formatter = EntryFormatter(newest, request)

    def build_entry(entry: AuditEntry) -> HistoryEntry:
        key = formatter.get_object(entry)
        name = visible_name((key and key.name) or entry.object_text)
        title = f"Key {name}: {entry.get_action_display().lower()}"
        link = reverse("admin:accounts_apikey_change", args=[entry.object_id])
        return formatter.build(entry, title=title, link=link, icon=KEY_ICONS[Action(entry.action)])

    return [build_entry(entry) for entry in newest]


def list_account_entries(account: Account, request: HttpRequest) -> Iterator[HistoryEntry]:
    entries = list(AuditEntry.objects.for_object(account)[:MAX_TIMELINE])
    formatter = EntryFormatter(entries, request)
    for entry in entries:
        icon = ACCOUNT_ICONS.get(entry.action, "speed")
        changes = formatter.list_changes(entry) if icon not in SUSPENSION_ICONS else []
        yield formatter.build(entry, changes=changes, icon=icon)


def list_warning_entries(account: Account) -> Iterator[HistoryEntry]:
    """Yield warnings only, since the audit trail already covers the other events."""
    events = Event.objects.filter(account_id=account.pk).alias(key=TwoFilterKey("id")).order_by("-key")
    for event_type, text in WARNINGS.items():
        for event in events.filter(type=event_type)[:MAX_TIMELINE]:
            title, at = text.format(describe_event(orjson.loads(event.data))), to_datetime(event.created_at)
            yield HistoryEntry(at, title, SERVICE.name, link=change_url(event), icon="notifications")
