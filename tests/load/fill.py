"""Fills an empty database for a load test: the one that DATABASE_URL names.

    python -m tests.load.fill --pets 100000 --keys 1000 --keys-out FILE

Pets have the ids 1 to N, three of five are available; there are 50 categories; the keys, one per line in
FILE, belong to one account each, with limits that no test reaches.
"""

import argparse
import os
import tempfile
from pathlib import Path

import django

CATEGORIES = 50
STATUSES = ("available", "pending", "available", "sold", "available")
UNREACHABLE_LIMIT = 1_000_000_000  # Requests per minute, and per day.


def write_pets(file: Path, pets: int) -> None:
    with file.open("w") as text:
        text.write("name,categoryId,status\n")
        for number in range(pets):
            text.write(f"Pet number {number},{1 + number % CATEGORIES},{STATUSES[number % 5]}\n")


def fill(pets: int, keys: int, keys_out: Path) -> None:
    from django.core.management import call_command

    from accounts.models import Account, Actor, ApiKey, PlanCode
    from inventory.models import Category

    call_command("migrate", verbosity=0)
    existing = Category.objects.count()
    Category.objects.bulk_create(Category(name=f"Kind {n}") for n in range(existing, CATEGORIES))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pets.csv"
        write_pets(file, pets)
        call_command("import_pets", str(file))
    limits = {"per_minute": UNREACHABLE_LIMIT, "per_day": UNREACHABLE_LIMIT}
    texts = []
    for number in range(keys):
        account = Account.objects.create(name=f"Load {number}", plan_id=PlanCode.ENTERPRISE, **limits)
        texts.append(ApiKey.objects.issue(account, by=Actor("load test"))[1])
    keys_out.write_text("\n".join(texts) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pets", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--keys-out", type=Path, required=True)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    django.setup()
    fill(options.pets, options.keys, options.keys_out)
