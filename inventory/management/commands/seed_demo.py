"""Add demo data."""

import random
from argparse import ArgumentParser
from functools import partial
from itertools import islice
from typing import Any

from django.core.management.base import CommandError
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.demo import add_history
from accounts.models import Account
from inventory.demo import add_orders, generate_pets
from inventory.models import Pet
from petstore.management.base import JsonCommand
from petstore.management.commands import quickstart

BATCH_SIZE = 5_000
MAX_DAYS = 730
MAX_ACCOUNTS = 5_000


class Command(JsonCommand):
    help = (
        "Add demo pets to the existing categories and, with --year, demo customers with a year of history."
    )
    examples = """
        manage.py seed_demo
        manage.py seed_demo --pets 100000
        manage.py seed_demo --pets 300 --if-empty --json
        manage.py seed_demo --year --accounts 100
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--pets", type=int, default=300, metavar="N", help="Number of pets. Default: 300."
        )
        text = "Do nothing if pets exist. If customers exist, add no others."
        parser.add_argument("--if-empty", action="store_true", help=text)
        history = parser.add_mutually_exclusive_group()
        text = "Also add customers, with the keys, requests, rejections and orders of the last N days."
        history.add_argument("--history-days", type=int, default=0, metavar="N", help=text)
        text = "Same as --history-days 365."
        history.add_argument("--year", action="store_const", const=365, dest="history_days", help=text)
        text = "Number of customers. Default: 40."
        parser.add_argument("--accounts", type=int, default=40, metavar="N", help=text)
        text = "Add the history even if customers exist."
        parser.add_argument("--force", action="store_true", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        days, account_count = options["history_days"], options["accounts"]
        if options["pets"] < 0:
            raise CommandError("--pets must be 0 or more.")
        if not 0 <= days <= MAX_DAYS or not 1 <= account_count <= MAX_ACCOUNTS:
            raise CommandError(
                f"--history-days must be 0 to {MAX_DAYS}, and --accounts 1 to {MAX_ACCOUNTS}."
            )
        if options["if_empty"] and Pet.objects.exists():
            self.write_result({"added": 0}, "Done. Pets already exist; none were added.")
            return
        has_customers = Account.objects.exclude(name=quickstart.ACCOUNT).exists()
        if has_customers and options["if_empty"]:
            days = 0
        elif has_customers and days and not options["force"]:
            raise CommandError(
                "Customers already exist, and demo customers could not be distinguished from them later. "
                "Use an empty database, or add --force."
            )
        self.add_pets(options["pets"])
        result = {"added": options["pets"]}
        text = f"Done. Added {options['pets']} pets."
        if days:
            orders = self.add_history(days, account_count)
            result |= {"accounts": account_count, "orders": orders}
            text += f"\nDone. Added {account_count} accounts with {days} days, and {orders} orders."
        self.write_result(result, text)

    def add_pets(self, count: int) -> None:
        pets = generate_pets(count)
        with self.progress_bar("Adding", count) as bar:
            while batch := list(islice(pets, BATCH_SIZE)):
                Pet.objects.bulk_create_with_events(batch)
                bar.update(len(batch))

    def add_history(self, days: int, account_count: int) -> int:
        """Add customers, usage and orders, and return the number of orders."""
        rng = random.Random(f"{days} {account_count} {Account.objects.count()}")  # noqa: S311  Not for security.
        now = timezone.now()
        try:
            with transaction.atomic():
                order = partial(add_orders, rng, now, days)
                return add_history(rng, now, days, account_count, order).total()
        except IntegrityError:
            raise CommandError(
                "No customers were added, because some of them exist already. Did another run add them?"
            ) from None
