"""Creates the rows of a chaos run."""

from typing import Any

from django.contrib.auth.models import User

from accounts.models import Account, Actor, ApiKey, PlanCode
from inventory.models import Pet

UNREACHABLE_LIMIT = 1_000_000_000  # Requests per minute, and per day.
PER_MINUTE_OF_BANNED = 5


def issue(name: str, per_minute: int, per_day: int = UNREACHABLE_LIMIT) -> dict[str, Any]:
    """Issue a key to a new account."""
    plan = PlanCode.ENTERPRISE
    account = Account.objects.create(name=name, plan_id=plan, per_minute=per_minute, per_day=per_day)
    key, text = ApiKey.objects.issue(account, by=Actor("chaos"))
    return {"key": text, "id": key.public_id, "row": key.pk}


def fill(wanted: dict[str, Any]) -> dict[str, Any]:
    """Create a staff login, and the wanted rows.

    These are `accounts` as {name: [requests per minute, per day]}, and the numbers of `spare` keys of one
    account each, of `banned` accounts whose bans staff lift, and of `pets` that are not ordered.
    """
    name, password = wanted["staff"]
    User.objects.create_superuser(name, password=password)
    Pet.objects.bulk_create(Pet(name=f"Stays {n}", category_id=1) for n in range(wanted["pets"]))
    return {
        "accounts": {name: issue(name, *limits) for name, limits in wanted["accounts"].items()},
        "spare": [issue(f"Spare {n}", UNREACHABLE_LIMIT) for n in range(wanted["spare"])],
        "banned": [issue(f"Banned {n}", PER_MINUTE_OF_BANNED) for n in range(wanted["banned"])],
    }
