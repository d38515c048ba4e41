"""What was done to an account and to its keys, for the page of the account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Cast
from django.urls import reverse

from accounts.models import Account, ApiKey, PlanCode
from petstore.backoffice.audit import Action
from petstore.backoffice.history import Entry
from petstore.backoffice.models import AuditEntry

SHOWN = 30
BANS = {Action.BANNED: "gavel", Action.UNBANNED: "lock_open"}
ICONS = {Action.ISSUED: "key", Action.ROTATED: "autorenew", Action.REVOKED: "block"} | BANS
# The fields of an account that staff change, in the words of its form.
FIELDS = {
    "name": "name",
    "plan": "plan",
    "per_minute": "requests per minute",
    "per_day": "requests per day",
}


def of_keys(account: Account) -> list[Entry]:
    """Return the newest that was done to its keys."""
    ids = account.keys.values_list(Cast("pk", CharField()))
    found = AuditEntry.objects.filter(model=ApiKey._meta.label_lower, object_id__in=ids, action__in=ICONS)
    newest = list(found[:SHOWN])
    names = dict(ApiKey.objects.filter(pk__in={one.object_id for one in newest}).values_list("pk", "name"))
    return [
        Entry(
            one.at,
            f"Key {names.get(int(one.object_id)) or one.object_text}: {one.get_action_display().lower()}",
            one.actor_name,
            one.reason,
            link=reverse("admin:accounts_apikey_change", args=[one.object_id]),
            icon=ICONS[Action(one.action)],
        )
        for one in newest
    ]


def of_account(account: Account) -> Iterator[Entry]:
    """Yield what staff changed of the account itself, with old and new values."""
    for entry in AuditEntry.objects.about(account)[:SHOWN]:
        if entry.action == Action.ADDED:
            what = f"Added, on {in_words('plan', entry.after.get('plan'))}"
            yield Entry(entry.at, what, entry.actor_name, entry.reason, icon="add_business")
        elif parts := changes(entry):
            what = f"Changed {', '.join(parts)}"
            yield Entry(entry.at, what, entry.actor_name, entry.reason, icon="speed")


def changes(entry: AuditEntry) -> list[str]:
    return [
        f"{label} from {in_words(name, entry.before.get(name))} to {in_words(name, entry.after[name])}"
        for name, label in FIELDS.items()
        if name in entry.after
    ]


def in_words(name: str, value: Any) -> str:
    if value in (None, ""):
        return "none"
    if name == "plan":
        return PlanCode(value).label if value in PlanCode.values else str(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
