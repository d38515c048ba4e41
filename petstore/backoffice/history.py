"""What happened, as pages list it: templates/admin/history.html shows entries, the newest first."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from petstore.backoffice.models import AuditEntry

MOST_SHOWN = 100  # A row may have thousands.


class Change(NamedTuple):
    field: str
    before: Any
    after: Any


class Entry(NamedTuple):
    at: datetime
    what: str
    who: str
    why: str = ""
    changes: list[Change] = []
    link: str = ""
    icon: str = ""  # Of Material Symbols.


def entries_of(found: QuerySet[AuditEntry]) -> list[Entry]:
    return [
        Entry(entry.at, entry.get_action_display(), entry.actor_name, entry.reason, changes_of(entry))
        for entry in found[:MOST_SHOWN]
    ]


def changes_of(entry: AuditEntry) -> list[Change]:
    """Return old and new values of what was changed; of what was added or deleted there are too many."""
    if not (entry.before and entry.after):
        return []
    names = sorted(entry.before | entry.after)
    return [Change(name.replace("_", " "), entry.before.get(name), entry.after.get(name)) for name in names]
