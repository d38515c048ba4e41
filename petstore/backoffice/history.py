"""Audit entries, prepared for templates/admin/history.html."""

import re
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from petstore.audit import EMPTY_VALUES, HIDDEN, HIDDEN_NEW
from petstore.audit.models import AuditEntry
from petstore.db.names import visible_name

TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*\+00:00")
MAX_ENTRIES = 100
# Redundant with the object, time or action of an entry.
OMITTED_FIELDS = {"id", "created_at", "updated_at", "date_joined", "last_login", "is_staff", "public_id"}
FIELD_LABELS = {"groups": "role", "is_active": "may sign in", "is_superuser": "superuser"}


class Change(NamedTuple):
    field: str
    before: str  # Empty for a new row or a hidden value.
    after: str

    def __str__(self) -> str:
        return f"{self.field}: {f'{self.before} → ' if self.before else ''}{self.after}"


class HistoryEntry(NamedTuple):
    at: datetime
    title: str
    actor: str
    reason: str = ""
    changes: list[Change] = []
    link: str = ""
    icon: str = ""  # A Material Symbol.


def build_history(entries: QuerySet[AuditEntry]) -> list[HistoryEntry]:
    return [
        HistoryEntry(row.at, row.get_action_display(), row.actor_name, row.reason, get_changes(row))
        for row in entries[:MAX_ENTRIES]
    ]


def get_changes(entry: AuditEntry) -> list[Change]:
    """List the fields that changed or, for a new row, those that are set. Deletions have none."""
    if not entry.after:
        return []
    changes = []
    for name in sorted((entry.before | entry.after).keys() - OMITTED_FIELDS):
        before, after = entry.before.get(name), entry.after.get(name)
        is_new = not entry.before
        if is_new and after in (*EMPTY_VALUES, False, HIDDEN_NEW):
            continue
        label = FIELD_LABELS.get(name, name.replace("_", " "))
        if HIDDEN in (before, after) or after == HIDDEN_NEW:
            changes.append(Change(label, "", "changed (value hidden)"))
        else:
            changes.append(Change(label, "" if is_new else display_value(before), display_value(after)))
    return changes


def display_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(display_value, value)) or "none"
    if value in EMPTY_VALUES:
        return "none"
    return visible_name(TIMESTAMP.sub(r"\1 \2 UTC", str(value)))
