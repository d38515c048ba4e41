"""Base classes and helpers of the commands about keys and accounts."""

import getpass
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from accounts.models import Account, Actor, ApiKey
from petstore.management.base import JsonCommand, escape_nonprintable

MAX_DAYS = 36_500
# The relations that serialize_key reads.
KEY_RELATIONS = ("account__plan", "rate_limit_state")


def get_operator() -> Actor:
    """Return the actor for the audit trail, named after the user who runs the command."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # A container's user may have no name.
        name = "operator"
    return Actor(f"{name} (command)")


def get_key(public_id: str) -> ApiKey:
    """Return the key with its account. Raises CommandError if it does not exist."""
    try:
        return ApiKey.objects.select_related(*KEY_RELATIONS).get(public_id=public_id)
    except ApiKey.DoesNotExist:
        raise CommandError(
            f"No key has the ID {escape_nonprintable(public_id)}. List keys with list_keys."
        ) from None


def get_account(public_id: str) -> Account:
    try:
        return Account.objects.get(public_id=public_id)
    except Account.DoesNotExist:
        raise CommandError(
            f"No account has the ID {escape_nonprintable(public_id)}. "
            "The account's page in the back office shows it."
        ) from None


def serialize_key(key: ApiKey) -> dict[str, Any]:
    """Serialize a key for --json, without secrets. Usage and limit are those of its account."""
    now = timezone.now()
    return {
        "id": key.public_id,
        "account": key.account.name,
        "plan": key.account.plan_id,
        "name": key.name,
        "state": key.get_state(now),
        "pepper": key.pepper_number,
        "scopes": key.scopes.split(),
        "allowed_networks": key.allowed_networks,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "max_expires_at": key.max_expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
        "banned_until": key.get_ban_end(now),
        "used_today": key.account.get_request_count(now.date()),
        "limit_per_day": key.account.limits.per_day,
    }


def comma_separated(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def days_from_now(days: int | None) -> datetime | None:
    """Convert --expires-in-days. Raises CommandError if it is out of range."""
    if days is None:
        return None
    if not 1 <= days <= MAX_DAYS:
        raise CommandError(f"--expires-in-days must be from 1 to {MAX_DAYS}.")
    return timezone.now() + timedelta(days=days)


def format_table(columns: Sequence[str], rows: Iterable[dict[str, Any]], placeholder: str) -> str:
    cells = [[escape_nonprintable(str(row[column] or "-")) for column in columns] for row in rows]
    if not cells:
        return placeholder
    lines = [[column.upper() for column in columns], *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


class KeyActionCommand(JsonCommand):
    """A command that calls a method of one key with a reason."""

    action: Callable[..., None]  # A method of ApiKey.
    outcome: str  # Completes the sentence "Key ... is".
    requires_reason = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="The key's public ID.")
        reason: Any = {"required": True} if self.requires_reason else {"default": ""}
        parser.add_argument("--reason", metavar="TEXT", help="Stored in the key's history.", **reason)

    def get_values(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return further arguments of the method."""
        return {}

    def handle(self, *args: Any, **options: Any) -> None:
        key = get_key(options["id"])
        type(self).action(key, reason=options["reason"], by=get_operator(), **self.get_values(options))
        text = f"Done. Key {key.public_id} of {escape_nonprintable(key.account.name)} is {self.outcome}."
        self.write_result(serialize_key(key), text)
