"""List peppers and the number of keys that depend on each."""

import sys
from typing import Any

from django.conf import settings
from django.db.models import Count, Max
from django.utils import timezone

from accounts.management.base import KeyCommand
from accounts.models import ApiKey, get_signing_pepper_number, is_active


class Command(KeyCommand):
    publishes = False
    help = (
        "Count the usable keys that depend on each pepper. A key moves to the signing pepper when it is "
        "used. A pepper without keys may be removed from API_KEY_PEPPERS."
    )
    examples = """
        manage.py list_peppers
        manage.py list_peppers --json
        """
    statuses = {1: "Keys depend on a pepper that API_KEY_PEPPERS lacks, so they are refused."}

    def run(self, options: dict[str, Any]) -> None:
        rows = peppers()
        self.write_result(options, rows, "\n".join(map(sentence, rows)))
        if any(row["keys"] and not row["known"] for row in rows):
            sys.exit(1)


def peppers() -> list[dict[str, Any]]:
    usable = ApiKey.objects.filter(is_active(timezone.now())).order_by("pepper_number")
    in_use = usable.values_list("pepper_number").annotate(Count("pk"), Max("last_used_at"))
    found = {number: (keys, last) for number, keys, last in in_use}
    return [
        {
            "number": number,
            "known": number in settings.API_KEY_PEPPERS,
            "signs": number == get_signing_pepper_number(),
            "keys": keys,
            "last_used_at": last.isoformat() if last else None,
        }
        for number in sorted(found.keys() | settings.API_KEY_PEPPERS.keys())
        for keys, last in [found.get(number, (0, None))]
    ]


def sentence(row: dict[str, Any]) -> str:
    keys = f"{row['keys']} {'key' if row['keys'] == 1 else 'keys'}"
    used = f", last used {row['last_used_at']}" if row["last_used_at"] else ""
    start = f"Pepper {row['number']}: {keys}{used}."
    if row["signs"]:
        return f"{start} It signs new keys."
    if not row["known"]:
        return f"{start} API_KEY_PEPPERS lacks it, so these keys are refused: add it again."
    if row["keys"]:
        return f"{start} Keep it until these keys have been used, rotated or revoked."
    return f"{start} It may be removed from API_KEY_PEPPERS, unless it is the next to sign."
