"""Creates the rows of a chaos run in the migrated database of DATABASE_URL, and prints them as JSON.

    python -m tests.chaos.fill NAMES

NAMES is a JSON object: `accounts` as {name: [requests per minute, per day]}, `spare` keys, each of another
account, `banned` accounts whose bans staff lift, `pets` that are not ordered.
"""

import json
import os
import sys
from typing import Any

import django

STAFF = "chaos"
PASSWORD = "correct horse battery staple"
PER_MINUTE_OF_BANNED = 5
NEVER_REACHED = 1_000_000_000  # Requests a minute, and a day.


def fill(wanted: dict[str, Any]) -> dict[str, Any]:
    from django.contrib.auth.models import User

    from accounts.models import Account, Actor, ApiKey, PlanCode
    from inventory.models import Pet

    def account(name: str, per_minute: int, per_day: int = NEVER_REACHED) -> Account:
        plan = PlanCode.ENTERPRISE
        return Account.objects.create(name=name, plan_id=plan, per_minute=per_minute, per_day=per_day)

    def key(of: Account) -> dict[str, Any]:
        made, text = ApiKey.objects.issue(of, by=Actor("chaos"))
        return {"key": text, "id": made.public_id, "row": made.pk}

    User.objects.create_superuser(STAFF, password=PASSWORD)
    Pet.objects.bulk_create(Pet(name=f"Stays {n}", category_id=1) for n in range(wanted["pets"]))
    return {
        "accounts": {name: key(account(name, *numbers)) for name, numbers in wanted["accounts"].items()},
        "spare": [key(account(f"Spare {n}", NEVER_REACHED)) for n in range(wanted["spare"])],
        "banned": [key(account(f"Banned {n}", PER_MINUTE_OF_BANNED)) for n in range(wanted["banned"])],
    }


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    django.setup()
    json.dump(fill(json.loads(sys.argv[1])), sys.stdout)
