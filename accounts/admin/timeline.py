"""What happened to an account, the newest first: its keys, its plan, its orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.urls import reverse

from accounts.models import Account, KeyEvent, PlanCode
from petstore.backoffice.models import AuditEntry

if TYPE_CHECKING:
    from inventory.models import Order

SHOWN = 30
ICONS = {
    "issued": "key",
    "rotated": "autorenew",
    "revoked": "block",
    "banned": "gavel",
    "unbanned": "lock_open",
}
# The fields of an account that staff change, in the words of its form.
FIELDS = {
    "name": "name",
    "plan": "plan",
    "per_minute": "requests per minute",
    "per_day": "requests per day",
}
UNCHANGED = object()


class Entry(NamedTuple):
    """One thing that happened."""

    at: datetime
    icon: str  # Of Material Symbols.
    what: str
    who: str
    why: str
    link: str = ""


def timeline(account: Account, events: Iterable[KeyEvent], orders: Iterable[Order]) -> list[Entry]:
    """Return the newest entries. Takes what the page has read of keys and orders already."""
    entries = [*of_keys(events), *of_account(account), *of_orders(orders)]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)[:SHOWN]


def of_keys(events: Iterable[KeyEvent]) -> Iterator[Entry]:
    """Yield what happened to its keys."""
    for event in events:
        what = f"Key {event.key.name or event.key.public_id}: {event.get_action_display().lower()}"
        link = reverse("admin:accounts_apikey_change", args=[event.key_id])
        yield Entry(event.at, ICONS[event.action], what, event.actor_name, event.reason, link)


def of_account(account: Account) -> Iterator[Entry]:
    """Yield what staff changed of the account itself, with old and new values."""
    changes = AuditEntry.objects.filter(object_id=str(account.pk), model=account._meta.label_lower)
    for change in changes.order_by("-id")[:SHOWN]:
        if change.action == AuditEntry.Action.ADDED:
            plan = in_words("plan", change.after.get("plan"))
            yield Entry(change.at, "add_business", f"Added, on {plan}", change.actor_name, change.reason)
            continue
        parts = [
            f"{label} from {in_words(name, change.before.get(name))} to {in_words(name, new)}"
            for name, label in FIELDS.items()
            if (new := change.after.get(name, UNCHANGED)) is not UNCHANGED
        ]
        if parts:
            yield Entry(change.at, "speed", "Changed " + ", ".join(parts), change.actor_name, change.reason)


def in_words(name: str, value: Any) -> str:
    """Return a value of a field as people say it."""
    if value in (None, ""):
        return "none"
    if name == "plan":
        return PlanCode(value).label if value in PlanCode.values else str(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def of_orders(orders: Iterable[Order]) -> Iterator[Entry]:
    """Yield the steps of its latest orders."""
    for order in orders:
        link = reverse("admin:inventory_order_change", args=[order.pk])
        for event in order.events.all():
            shipped = event.from_status == event.to_status
            what = f"Order {order.pk}: {'to be shipped' if shipped else event.to_status}"
            yield Entry(event.at, "receipt_long", what, event.by, event.reason, link)
