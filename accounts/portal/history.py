"""The history of keys and webhooks for customers: it names members of the account, but no staff (D49)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import CharField, OuterRef, Subquery
from django.db.models.functions import Cast

from accounts.actions import Action
from accounts.models import Account, ApiKey, WebhookEndpoint
from accounts.models.api_keys import SERVICE
from petstore.audit.models import AuditEntry
from petstore.backoffice.history import MAX_ENTRIES, HistoryEntry
from petstore.db.keysets import TwoFilterKey
from petstore.text import format_time

STAFF = "Pet Store"
FORMER_MEMBER = "a former member"
# The fields whose changes are shown, with their label and the text of an empty value.
FIELDS = {
    "name": ("Name", "none"),
    "scopes": ("Scopes", ""),
    "allowed_networks": ("Networks", "every address"),
    "expires_at": ("Expires", "never"),
    "host": ("Host", ""),
    "description": ("Description", "none"),
    "types": ("Events", ""),
}


def build_history(row: ApiKey | WebhookEndpoint) -> list[HistoryEntry]:
    """List the newest entries of the audit trail of a key or webhook, without the reasons of staff."""
    entries = list(row.audit_entries[:MAX_ENTRIES])
    actors = name_actors(row.account, entries)
    history = []
    for entry in entries:
        actor = actors[entry.pk]
        reason = entry.reason if actor != STAFF or entry.actor_name == SERVICE.name else ""
        title, changes = entry.get_action_display(), list_changes(entry)
        history.append(HistoryEntry(entry.at, title, actor, reason, changes))
    return history


def find_creators(account: Account, keys: Iterable[ApiKey]) -> dict[str, str]:
    """Map the primary keys of keys, as text, to who issued them."""
    issued = AuditEntry.objects.filter(
        model=ApiKey._meta.label_lower, object_id=Cast(OuterRef("pk"), CharField()), action=Action.ISSUED
    )
    first = issued.alias(key=TwoFilterKey("id")).order_by("key").values("pk")[:1]
    rows = ApiKey.objects.filter(pk__in=[key.pk for key in keys]).order_by()
    entries = list(AuditEntry.objects.filter(pk__in=rows.values_list(Subquery(first))).order_by())
    actors = name_actors(account, entries)
    return {entry.object_id: actors[entry.pk] for entry in entries}


def name_actors(account: Account, entries: list[AuditEntry]) -> dict[int, str]:
    """Map the IDs of entries to the names of their actors. Staff, former staff and commands share a name.

    What former staff have done since they were removed from staff, they have done as members.
    """
    users = User.objects.filter(pk__in={entry.actor_id for entry in entries}, is_staff=False)
    names = dict.fromkeys(users.values_list("pk", flat=True), FORMER_MEMBER)
    names |= users.filter(memberships__account=account).values_list("pk", "username")
    removals = AuditEntry.objects.filter(
        model=User._meta.label_lower, object_id__in=[*map(str, names)], action=Action.REMOVED_FROM_STAFF
    )
    ends = {int(pk): end for pk, end in removals.order_by("pk").values_list("object_id", "pk")}

    def name_actor(entry: AuditEntry) -> str:
        pk = entry.actor_id or 0
        return names.get(pk, STAFF) if entry.pk > ends.get(pk, 0) else STAFF

    return {entry.pk: name_actor(entry) for entry in entries}


def list_changes(entry: AuditEntry) -> list[str]:
    changes = []
    for field, (label, empty) in FIELDS.items():
        if entry.before and field in entry.after:
            before, after = (
                format_value(field, values.get(field)) or empty for values in (entry.before, entry.after)
            )
            changes.append(f"{label}: {before} → {after}")
    return changes


def format_value(field: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if field == "expires_at" and value:
        return format_time(datetime.fromisoformat(value))
    return value or ""
