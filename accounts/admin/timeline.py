"""Entries of the timeline on an account's page."""

from collections.abc import Iterator
from typing import Any

import orjson
from django.contrib.admin.utils import label_for_field
from django.db.models import CharField
from django.db.models.functions import Cast
from django.urls import reverse

from accounts.admin.base import change_url
from accounts.models import Account, ApiKey, Event, EventType, PlanCode
from accounts.quota.limits import to_datetime
from accounts.usage.batch import SERVICE
from petstore.backoffice.audit import HIDDEN_NEW, Action
from petstore.backoffice.history import HistoryEntry
from petstore.backoffice.models import AuditEntry
from petstore.db.keysets import TwoFilterKey
from petstore.db.names import visible_name

TIMELINE_SHOWN = 30
BANS = {Action.BANNED: "gavel", Action.UNBANNED: "lock_open"}
SUSPENSIONS = {Action.SUSPENDED: "pause_circle", Action.SUSPENSION_LIFTED: "play_circle"}
ICONS = {Action.ISSUED: "key", Action.ROTATED: "autorenew", Action.REVOKED: "block"} | BANS
WARNINGS = {EventType.QUOTA_REACHED: "Reached {}", EventType.KEY_EXPIRING: "Expires soon: {}"}
FIELDS = ("name", "contact_email", "notes", "plan", "per_minute", "per_day")


def key_entries(account: Account) -> list[HistoryEntry]:
    ids = account.keys.values_list(Cast("pk", CharField()))
    found = AuditEntry.objects.filter(model=ApiKey._meta.label_lower, object_id__in=ids, action__in=ICONS)
    newest = list(found[:TIMELINE_SHOWN])
    names = dict(ApiKey.objects.filter(pk__in={one.object_id for one in newest}).values_list("pk", "name"))
    return [
        HistoryEntry(
            one.at,
            f"Key {visible_name(names.get(int(one.object_id)) or one.object_text)}: "
            f"{one.get_action_display().lower()}",
            one.actor_name,
            one.reason,
            link=reverse("admin:accounts_apikey_change", args=[one.object_id]),
            icon=ICONS[Action(one.action)],
        )
        for one in newest
    ]


def account_entries(account: Account) -> Iterator[HistoryEntry]:
    for entry in AuditEntry.objects.about(account)[:TIMELINE_SHOWN]:
        changes = [
            describe_change(name, entry.before.get(name), entry.after[name])
            for name in FIELDS
            if name in entry.after
        ]
        if entry.action == Action.ADDED:
            what, icon = f"Added, on {display_value('plan', entry.after.get('plan'))}", "add_business"
        elif entry.action in SUSPENSIONS:
            what, icon = entry.get_action_display(), SUSPENSIONS[Action(entry.action)]
        elif changes:
            what, icon = f"Changed {', '.join(changes)}", "speed"
        else:
            continue
        yield HistoryEntry(entry.at, what, entry.actor_name, entry.reason, icon=icon)


def describe_change(name: str, before: Any, after: Any) -> str:
    """Describe a change; of values that the audit trail hides, only that they changed."""
    label = str(label_for_field(name, Account))
    if after == HIDDEN_NEW:
        return label
    return f"{label} from {display_value(name, before)} to {display_value(name, after)}"


def display_value(name: str, value: Any) -> str:
    if value in (None, ""):
        return "none"
    if name == "plan":
        return PlanCode(value).label if value in PlanCode.values else str(value)
    return f"{value:,}" if isinstance(value, int) else visible_name(str(value))


def warning_entries(account: Account) -> list[HistoryEntry]:
    """Return the warnings. Other events are in the timeline as changes."""
    events = Event.objects.filter(account_id=account.pk).alias(key=TwoFilterKey("id")).order_by("-key")
    return [
        HistoryEntry(
            to_datetime(event.created_at),
            text.format(describe_event(orjson.loads(event.data))),
            SERVICE.name,
            link=change_url(event),
            icon="notifications",
        )
        for kind, text in WARNINGS.items()
        for event in events.filter(type=kind)[:TIMELINE_SHOWN]
    ]


def describe_event(data: dict[str, Any]) -> str:
    if "threshold" in data:
        return f"{data['threshold']}% of the {data['window']}'s requests"
    if "firstId" in data:
        return f"{data['count']:,} pets, from {data['firstId']} to {data['lastId']}"
    about = ((what, row) for what, row in data.items() if isinstance(row, dict))
    return ", ".join(f"{what} {row.get('name') or row['id']}" for what, row in about)
