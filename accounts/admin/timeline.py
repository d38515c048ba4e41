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

MAX_TIMELINE = 30
BAN_ICONS = {Action.BANNED: "gavel", Action.UNBANNED: "lock_open"}
KEY_ICONS = {Action.ISSUED: "key", Action.ROTATED: "autorenew", Action.REVOKED: "block"} | BAN_ICONS
SUSPENSION_ICONS = {Action.SUSPENDED: "pause_circle", Action.SUSPENSION_LIFTED: "play_circle"}
WARNINGS = {EventType.QUOTA_REACHED: "Reached {}", EventType.KEY_EXPIRING: "Expires soon: {}"}
AUDITED_FIELDS = ("name", "contact_email", "notes", "plan", "per_minute", "per_day")


def list_key_entries(account: Account) -> list[HistoryEntry]:
    ids = account.keys.values_list(Cast("pk", CharField()))
    entries = AuditEntry.objects.filter(
        model=ApiKey._meta.label_lower, object_id__in=ids, action__in=KEY_ICONS
    )
    newest = list(entries[:MAX_TIMELINE])
    keys = ApiKey.objects.filter(pk__in={entry.object_id for entry in newest})
    names = dict(keys.values_list("pk", "name"))
    return [
        HistoryEntry(
            entry.at,
            f"Key {visible_name(names.get(int(entry.object_id)) or entry.object_text)}: "
            f"{entry.get_action_display().lower()}",
            entry.actor_name,
            entry.reason,
            link=reverse("admin:accounts_apikey_change", args=[entry.object_id]),
            icon=KEY_ICONS[Action(entry.action)],
        )
        for entry in newest
    ]


def list_account_entries(account: Account) -> Iterator[HistoryEntry]:
    for entry in AuditEntry.objects.for_object(account)[:MAX_TIMELINE]:
        changes = [
            describe_change(field, entry.before.get(field), entry.after[field])
            for field in AUDITED_FIELDS
            if field in entry.after
        ]
        if entry.action == Action.ADDED:
            text, icon = f"Added, on {display_value('plan', entry.after.get('plan'))}", "add_business"
        elif entry.action in SUSPENSION_ICONS:
            text, icon = entry.get_action_display(), SUSPENSION_ICONS[Action(entry.action)]
        elif changes:
            text, icon = f"Changed {', '.join(changes)}", "speed"
        else:
            continue
        yield HistoryEntry(entry.at, text, entry.actor_name, entry.reason, icon=icon)


def describe_change(field: str, before: Any, after: Any) -> str:
    """Describe the change of a field. Values that the audit trail masks are left out."""
    label = str(label_for_field(field, Account))
    if after == HIDDEN_NEW:
        return label
    return f"{label} from {display_value(field, before)} to {display_value(field, after)}"


def display_value(field: str, value: Any) -> str:
    if value in (None, ""):
        return "none"
    if field == "plan":
        return PlanCode(value).label if value in PlanCode.values else str(value)
    return f"{value:,}" if isinstance(value, int) else visible_name(str(value))


def list_warning_entries(account: Account) -> Iterator[HistoryEntry]:
    """Yield warnings only, since the audit trail already covers what other events report."""
    events = Event.objects.filter(account_id=account.pk).alias(key=TwoFilterKey("id")).order_by("-key")
    for event_type, text in WARNINGS.items():
        for event in events.filter(type=event_type)[:MAX_TIMELINE]:
            yield HistoryEntry(
                to_datetime(event.created_at),
                text.format(describe_event(orjson.loads(event.data))),
                SERVICE.name,
                link=change_url(event),
                icon="notifications",
            )


def describe_event(data: dict[str, Any]) -> str:
    if "threshold" in data:
        return f"{data['threshold']}% of the {data['window']}'s requests"
    if "firstId" in data:
        return f"{data['count']:,} pets, from {data['firstId']} to {data['lastId']}"
    subjects = ((name, value) for name, value in data.items() if isinstance(value, dict))
    return ", ".join(f"{name} {value.get('name') or value['id']}" for name, value in subjects)
