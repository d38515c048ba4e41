"""List the peppers and the number of keys that depend on each."""

import sys
from typing import Any

from django.conf import settings
from django.db.models import Count, Max
from django.utils import timezone

from accounts.management.base import format_time
from accounts.models import ApiKey, active_keys_q, get_signing_pepper_number
from petstore.management.base import JsonCommand


class Command(JsonCommand):
    help = (
        "Count the active keys that depend on each pepper. A key switches from an older pepper to the "
        "signing pepper when it is used. Other peppers without keys may be removed from API_KEY_PEPPERS."
    )
    examples = "manage.py list_peppers"
    statuses = {1: "Keys are rejected because their pepper is missing from API_KEY_PEPPERS."}

    def handle(self, *args: Any, **options: Any) -> None:
        peppers = count_keys_by_pepper()
        self.write_result(peppers, "\n".join(map(describe_pepper, peppers)))
        if any(pepper["keys"] and not pepper["known"] for pepper in peppers):
            sys.exit(1)


def count_keys_by_pepper() -> list[dict[str, Any]]:
    active_keys = ApiKey.objects.filter(active_keys_q(timezone.now())).order_by("pepper_number")
    rows = active_keys.values_list("pepper_number").annotate(Count("pk"), Max("last_used_at"))
    usage = dict.fromkeys(settings.API_KEY_PEPPERS, (0, None)) | {number: use for number, *use in rows}
    return [
        {
            "number": number,
            "known": number in settings.API_KEY_PEPPERS,
            "signs": number == get_signing_pepper_number(),
            "keys": count,
            "last_used_at": format_time(last_used_at),
        }
        for number, (count, last_used_at) in sorted(usage.items())
    ]


def describe_pepper(pepper: dict[str, Any]) -> str:
    keys = f"{pepper['keys']} {'key' if pepper['keys'] == 1 else 'keys'}"
    last_use = f", last used {pepper['last_used_at']}" if pepper["last_used_at"] else ""
    usage = f"Pepper {pepper['number']}: {keys}{last_use}."
    if pepper["signs"]:
        return f"{usage} It signs new keys."
    if not pepper["known"]:
        return f"{usage} It is missing from API_KEY_PEPPERS, so these keys are rejected. Add it again."
    if pepper["keys"]:
        return f"{usage} Keep it until these keys have been used, rotated or revoked."
    return f"{usage} It may be removed from API_KEY_PEPPERS, unless it is the next to sign."
