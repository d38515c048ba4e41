"""What happened, as pages list it: templates/admin/history.html shows entries, the newest first."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from petstore.backoffice.audit import EMPTY, HIDDEN, HIDDEN_NEW
from petstore.backoffice.models import AuditEntry
from petstore.db.names import visible_name

TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*\+00:00")
MAX_ENTRIES = 100  # A row may have thousands.
# What says nothing that the entry doesn't say already; and names other than those of the columns.
UNTOLD = {"id", "created_at", "updated_at", "date_joined", "last_login", "is_staff", "public_id"}
NAMES = {"groups": "role", "is_active": "may sign in", "is_superuser": "superuser"}


class Change(NamedTuple):
    field: str
    before: str  # Nothing, if there is only what was set.
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
    """Return what was changed, or of something new what was set; of what was deleted there is too much."""
    names = sorted((entry.before | entry.after).keys() - UNTOLD) if entry.after else []
    found = ((name, entry.before.get(name), entry.after.get(name)) for name in names)
    return [
        change(NAMES.get(name, name.replace("_", " ")), before, after, is_new=not entry.before)
        for name, before, after in found
        if entry.before or after not in (*EMPTY, False, HIDDEN_NEW)
    ]


def change(name: str, before: Any, after: Any, *, is_new: bool) -> Change:
    if HIDDEN in (before, after) or after == HIDDEN_NEW:
        return Change(name, "", "changed, but not shown")
    return Change(name, "" if is_new else display_value(before), display_value(after))


def display_value(value: Any) -> str:
    """Return a stored value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(display_value, value)) or "none"
    return "none" if value in EMPTY else visible_name(TIME.sub(r"\1 \2 UTC", str(value)))
