"""Fill the shop with believable pets."""

import random
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from inventory.models import Category, Pet, PetStatus

BATCH = 5_000
NAMES = """
Apollo Bella Biscuit Blue Bramble Bruno Buttons Casper Charlie Chester Clover Coco Cookie Daisy
Dexter Domino Echo Ember Fern Finn Flash Freckles Ginger Goldie Hazel Honey Hugo Indie Jasper Juno
Kiwi Leo Loki Lola Lucky Luna Mango Maple Marble Max Midnight Millie Milo Mocha Nala Nemo Noodle
Nova Olive Oreo Oscar Otis Peanut Pearl Pepper Percy Pickle Pip Pippin Pixie Poppy Pumpkin Queenie
Radar Remy River Rocky Romeo Rosie Ruby Rusty Sage Sasha Scout Shadow Simba Smokey Snowball Socks
Sooty Sparky Sprout Sunny Teddy Thistle Tiger Toby Truffle Tux Velvet Waffles Whiskers Willow Winnie
Ziggy
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
        yield Pet(
            name=choose.choice(NAMES),
            category_id=choose.choice(category_ids),
            status=choose.choice(STATUSES),
        )


class Command(BaseCommand):
    help = "Add demo pets to the categories that there are."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--pets", type=int, default=300, metavar="N", help="Default 300.")
        parser.add_argument("--if-empty", action="store_true", help="Do nothing if there are pets.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["pets"] < 0:
            raise CommandError("--pets must be 0 or more.")
        if options["if_empty"] and Pet.objects.exists():
            self.stdout.write("Done. The shop has pets already.")
            return
        rows = pets(options["pets"])
        while batch := list(islice(rows, BATCH)):
            Pet.objects.bulk_create(batch)
        self.stdout.write(f"Done. Added {options['pets']} pets.")
