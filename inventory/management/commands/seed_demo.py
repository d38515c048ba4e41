"""Fill the shop with believable pets."""

import random
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.core.management.base import CommandError
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.demo import add_history
from accounts.models import Account
from inventory.demo import add_orders
from inventory.models import Category, Pet, PetStatus
from petstore.management.base import JsonCommand

BATCH = 5_000
QUICKSTART_ACCOUNT = "Demo"  # The one that `quickstart` makes; nobody's.
MOST_DAYS = 730
MOST_ACCOUNTS = 5_000
NAMES = """
Apollo Bella Biscuit Blue Bramble Bruno Buttons Casper Charlie Chester Clover Coco Cookie Daisy
Dexter Echo Ember Finn Ginger Hazel Honey Hugo Jasper Kiwi Leo Lola Lucky Luna Mango Maple Max Millie
Milo Mocha Nala Nemo Olive Oreo Oscar Peanut Pepper Pip Poppy Rocky Rosie Ruby Rusty Scout Teddy Toby
""".split()
# Of ten pets six are available, one is on its way to a buyer, three are sold.
STATUSES = [PetStatus.AVAILABLE] * 6 + [PetStatus.PENDING] + [PetStatus.SOLD] * 3


def pets(count: int) -> Iterator[Pet]:
    """Yield pets; the same count gives the same pets."""
    choose = random.Random(count)  # noqa: S311  Nothing secret is drawn.
    category_ids = list(Category.objects.values_list("id", flat=True))
    if not category_ids:
        raise CommandError("There is no category to put pets in. Add one in the back office.")
    for _ in range(count):
        name, category_id = choose.choice(NAMES), choose.choice(category_ids)
        yield Pet(name=name, category_id=category_id, status=choose.choice(STATUSES))


class Command(JsonCommand):
    help = "Add demo pets to the categories that there are; with --year, a year of demo customers as well."
    examples = """
        manage.py seed_demo
        manage.py seed_demo --pets 100000
        manage.py seed_demo --pets 300 --if-empty --json
        manage.py seed_demo --year --accounts 100
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--pets", type=int, default=300, metavar="N", help="How many; default 300.")
        parser.add_argument("--if-empty", action="store_true", help="Do nothing if there are pets.")
        history = parser.add_mutually_exclusive_group()
        text = "Add customers whose keys, requests, refusals and orders go back so many days."
        history.add_argument("--history-days", type=int, default=0, metavar="N", help=text)
        text = "A history of 365 days."
        history.add_argument("--year", action="store_const", const=365, dest="history_days", help=text)
        text = "Customers of the history; default 40."
        parser.add_argument("--accounts", type=int, default=40, metavar="N", help=text)
        text = "Add the history even where there are customers."
        parser.add_argument("--force", action="store_true", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        days, count = options["history_days"], options["accounts"]
        if options["pets"] < 0:
            raise CommandError("--pets must be 0 or more.")
        if not 0 <= days <= MOST_DAYS or not 1 <= count <= MOST_ACCOUNTS:
            raise CommandError(
                f"--history-days must be 0 to {MOST_DAYS}, and --accounts 1 to {MOST_ACCOUNTS}."
            )
        if days and not options["force"] and Account.objects.exclude(name=QUICKSTART_ACCOUNT).exists():
            raise CommandError(
                "There are customers already, and the demo's could not be told from them later. "
                "Use an empty database, or add --force."
            )
        if options["if_empty"] and Pet.objects.exists():
            self.answer(options, {"added": 0}, "Done. The shop has pets already.")
            return
        rows = pets(options["pets"])
        with self.bar("Adding", options["pets"], options) as bar:
            while batch := list(islice(rows, BATCH)):
                Pet.objects.add_all([batch])
                bar.update(len(batch))
        made = {"added": options["pets"]} | (self.add_history(days, count) if days else {})
        text = f"Done. Added {options['pets']} pets."
        if days:
            orders = made["orders"]
            text += f"\nDone. Added {made['accounts']} accounts with {days} days, and {orders} orders."
        self.answer(options, made, text)

    def add_history(self, days: int, count: int) -> dict[str, int]:
        """Add customers, what they sent, and their orders: all of it or nothing.

        Raises CommandError for customers that are there already.
        """
        choose = random.Random(f"{days} {count} {Account.objects.count()}")  # noqa: S311  Nothing secret.
        now = timezone.now()
        try:
            with transaction.atomic():
                accounts = add_history(choose, now, days, count)
                orders = add_orders(choose, now, days, accounts)
        except IntegrityError:
            raise CommandError(
                "No customers were added: some of them are there already. Did another run add them?"
            ) from None
        return {"accounts": len(accounts), "orders": orders}
