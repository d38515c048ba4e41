"""Histories: audit entries prepared for templates/admin/history.html."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from petstore.backoffice.audit import EMPTY, HIDDEN, HIDDEN_NEW
from petstore.backoffice.models import AuditEntry
from petstore.db.names import visible_name

TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*\+00:00")
MAX_ENTRIES = 100
# Fields left out because the entry itself tells them, and labels that differ from the column names.
OMITTED_FIELDS = {"id", "created_at", "updated_at", "date_joined", "last_login", "is_staff", "public_id"}
FIELD_LABELS = {"groups": "role", "is_active": "may sign in", "is_superuser": "superuser"}


class Change(NamedTuple):
    field: str
    before: str  # Empty for a new row.
    after: str

    def __str__(self) -> str:
        return (
            f"{self.field}: {self.before} → {self.after}" if self.before else f"{self.field}: {self.after}"
        )


class HistoryEntry(NamedTuple):
    at: datetime
    what: str
    who: str
    why: str = ""
    changes: list[Change] = []
    link: str = ""
    icon: str = ""  # Of Material Symbols.


def history_entries(found: QuerySet[AuditEntry]) -> list[HistoryEntry]:
    return [
        HistoryEntry(
            entry.at, entry.get_action_display(), entry.actor_name, entry.reason, changes_of(entry)
        )
        for entry in found[:MAX_ENTRIES]
    ]


def changes_of(entry: AuditEntry) -> list[Change]:
    """List the changed fields, or those that a new row sets. Empty for a deletion."""
    names = sorted((entry.before | entry.after).keys() - OMITTED_FIELDS) if entry.after else []
    found = ((name, entry.before.get(name), entry.after.get(name)) for name in names)
    return [
        change(FIELD_LABELS.get(name, name.replace("_", " ")), before, after, is_new=not entry.before)
        for name, before, after in found
        if entry.before or after not in (*EMPTY, False, HIDDEN_NEW)
    ]


def change(name: str, before: Any, after: Any, *, is_new: bool) -> Change:
    if HIDDEN in (before, after) or after == HIDDEN_NEW:
        return Change(name, "", "changed (value hidden)")
    return Change(name, "" if is_new else display_value(before), display_value(after))


def display_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(display_value, value)) or "none"
    return "none" if value in EMPTY else visible_name(TIME.sub(r"\1 \2 UTC", str(value)))
