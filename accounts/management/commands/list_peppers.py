"""List the peppers and the number of keys and webhooks that depend on each."""

import sys
from collections import Counter
from typing import Any

from django.conf import settings
from django.db.models import Count, Max
from django.utils import timezone

from accounts.models import ApiKey, WebhookEndpoint, active_keys_q, get_signing_pepper_number
from petstore.management.base import JsonCommand
from petstore.text import format_count


class Command(JsonCommand):
    help = (
        "Count the active keys and the webhooks that depend on each pepper. A key switches from an older "
        "pepper to the signing pepper when it is used, and a webhook when its secret is rotated. Other "
        "peppers without either may be removed from API_KEY_PEPPERS."
    )
    examples = "manage.py list_peppers"
    statuses = {1: "Keys or webhooks don't work because their pepper is missing from API_KEY_PEPPERS."}

    def handle(self, *args: Any, **options: Any) -> None:
        peppers = count_by_pepper()
        self.write_result(peppers, "\n".join(map(describe_pepper, peppers)))
        if any(is_used(pepper) and not pepper["known"] for pepper in peppers):
            sys.exit(1)


def count_by_pepper() -> list[dict[str, Any]]:
    active_keys = ApiKey.objects.filter(active_keys_q(timezone.now())).order_by("pepper_number")
    rows = active_keys.values_list("pepper_number").annotate(Count("pk"), Max("last_used_at"))
    webhooks = count_webhooks_by_pepper()
    unused = dict.fromkeys([*settings.API_KEY_PEPPERS, *webhooks], (0, None))
    usage = unused | {number: use for number, *use in rows}
    return [
        {
            "number": number,
            "known": number in settings.API_KEY_PEPPERS,
            "signs": number == get_signing_pepper_number(),
            "keys": count,
            "webhooks": webhooks.get(number, 0),
            "last_used_at": last_used_at,
        }
        for number, (count, last_used_at) in sorted(usage.items())
    ]


def count_webhooks_by_pepper() -> dict[int, int]:
    """Count the current secrets, and the old ones that still sign."""
    old = WebhookEndpoint.objects.filter(old_secret_ends_at__gt=timezone.now())
    numbers: Counter[int | None] = Counter(old.values_list("old_pepper_number", flat=True))
    numbers.update(WebhookEndpoint.objects.values_list("pepper_number", flat=True))
    return {number: count for number, count in numbers.items() if number is not None}


def is_used(pepper: dict[str, Any]) -> bool:
    return bool(pepper["keys"] or pepper["webhooks"])


def describe_pepper(pepper: dict[str, Any]) -> str:
    dependents = f"{format_count(pepper['keys'], 'key')}, {format_count(pepper['webhooks'], 'webhook')}"
    last_use = f", last used {pepper['last_used_at']}" if pepper["last_used_at"] else ""
    usage = f"Pepper {pepper['number']}: {dependents}{last_use}."
    if pepper["signs"]:
        return f"{usage} It signs new keys."
    if not pepper["known"]:
        return f"{usage} It is missing from API_KEY_PEPPERS, so these don't work. Add it again."
    if is_used(pepper):
        return f"{usage} Keep it until these have been used, rotated or revoked."
    return f"{usage} It may be removed from API_KEY_PEPPERS, unless it is the next to sign."
