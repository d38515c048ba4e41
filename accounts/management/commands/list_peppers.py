"""Tell which peppers are still needed."""

import sys
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Q
from django.utils import timezone

from accounts.management.base import KeyCommand
from accounts.models import ApiKey, signing_pepper


class Command(KeyCommand):
    help = (
        "Say how many keys that can still be used hang on each pepper. A key moves to the one that signs "
        "when it is used; a pepper on which none hangs may be taken out of API_KEY_PEPPERS."
    )
    examples = """
        manage.py list_peppers
        manage.py list_peppers --json
        """
    statuses = {1: "Keys hang on a pepper that API_KEY_PEPPERS lacks: they are refused."}

    def run(self, options: dict[str, Any]) -> None:
        rows = peppers()
        self.answer(options, rows, "\n".join(map(sentence, rows)))
        if any(row["keys"] and not row["known"] for row in rows):
            sys.exit(1)


def peppers() -> list[dict[str, Any]]:
    """Return each pepper that is set or that a key hangs on, the lowest number first."""
    usable = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    hanging = ApiKey.objects.filter(usable).order_by("pepper_number").values("pepper_number")
    found = {
        row["pepper_number"]: row for row in hanging.annotate(keys=Count("pk"), last=Max("last_used_at"))
    }
    return [
        {
            "number": number,
            "known": number in settings.API_KEY_PEPPERS,
            "signs": number == signing_pepper(),
            "keys": found[number]["keys"] if number in found else 0,
            "last_used_at": found[number]["last"].isoformat()
            if number in found and found[number]["last"]
            else None,
        }
        for number in sorted(found.keys() | settings.API_KEY_PEPPERS.keys())
    ]


def sentence(row: dict[str, Any]) -> str:
    """Return what is to be known of a pepper, and what to do."""
    keys = f"{row['keys']} {'key' if row['keys'] == 1 else 'keys'}"
    used = f", last used {row['last_used_at']}" if row["last_used_at"] else ""
    start = f"Pepper {row['number']}: {keys}{used}."
    if row["signs"]:
        return f"{start} It signs now."
    if not row["known"]:
        return f"{start} API_KEY_PEPPERS lacks it: put it back, or these keys are refused."
    if row["keys"]:
        return f"{start} Keep it until these keys were used, rotated or revoked."
    return f"{start} It may be taken out of API_KEY_PEPPERS, unless it is to sign next."
