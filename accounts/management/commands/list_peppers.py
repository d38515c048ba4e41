"""Tell which peppers are still needed."""

import sys
from typing import Any

from django.conf import settings
from django.db.models import Count, Max
from django.utils import timezone

from accounts.management.base import KeyCommand
from accounts.models import ApiKey, active, signing_pepper


class Command(KeyCommand):
    publishes = False
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
    usable = ApiKey.objects.filter(active(timezone.now())).order_by("pepper_number")
    hanging = usable.values_list("pepper_number").annotate(Count("pk"), Max("last_used_at"))
    found = {number: (keys, last) for number, keys, last in hanging}
    return [
        {
            "number": number,
            "known": number in settings.API_KEY_PEPPERS,
            "signs": number == signing_pepper(),
            "keys": keys,
            "last_used_at": last.isoformat() if last else None,
        }
        for number in sorted(found.keys() | settings.API_KEY_PEPPERS.keys())
        for keys, last in [found.get(number, (0, None))]
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
