"""What happened, as pages list it: templates/admin/history.html shows entries, the newest first."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from petstore.backoffice.models import AuditEntry

TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*\+00:00")
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
    return [
        Change(name.replace("_", " "), shown(entry.before.get(name)), shown(entry.after.get(name)))
        for name in sorted(entry.before | entry.after)
    ]


def shown(value: Any) -> Any:
    """Return a stored value; a time as people write it."""
    return TIME.sub(r"\1 \2 UTC", value) if isinstance(value, str) else value
