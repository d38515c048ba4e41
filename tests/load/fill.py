"""Fills an empty database for a load test: what `DATABASE_URL` names.

    python -m tests.load.fill --pets 100000 --keys 1000 --keys-out FILE

Pets have the ids 1 to N, three of five are available; there are 50 categories; the keys, one a line in
FILE, belong to as many accounts, with limits that no test reaches.
"""

import argparse
import os
from pathlib import Path

import django

CATEGORIES = 50
NEVER_REACHED = 1_000_000_000  # Requests a minute, and a day.

PETS = """
INSERT INTO inventory_pet (id, name, category_id, status, created_at, updated_at)
SELECT n, 'Pet number ' || n, 1 + n %% {categories},
       (ARRAY['available', 'available', 'available', 'pending', 'sold'])[1 + abs(hashint8(n)::bigint) %% 5],
       now(), now()
FROM generate_series(1, %s) AS n
"""
GO_ON = "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)"


def fill(pets: int, keys: int, keys_out: Path) -> None:
    """Migrate, and fill. PostgreSQL only: a million rows by one statement."""
    from django.core.management import call_command
    from django.db import connection

    from accounts.models import Account, Actor, ApiKey, PlanCode
    from inventory.models import Category

    call_command("migrate", verbosity=0)
    present = Category.objects.count()
    Category.objects.bulk_create(Category(name=f"Kind {n}") for n in range(present, CATEGORIES))
    with connection.cursor() as cursor:
        cursor.execute(PETS.format(categories=CATEGORIES), [pets])
        cursor.execute(GO_ON, ["inventory_pet", pets])
    texts = []
    for number in range(keys):
        account = Account.objects.create(
            name=f"Load {number}",
            plan_id=PlanCode.ENTERPRISE,
            per_minute=NEVER_REACHED,
            per_day=NEVER_REACHED,
        )
        texts.append(ApiKey.objects.issue(account, by=Actor("load test"))[1])
    keys_out.write_text("\n".join(texts) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pets", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--keys-out", type=Path, required=True)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    django.setup()
    fill(options.pets, options.keys, options.keys_out)
