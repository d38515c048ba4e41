"""Lift a ban."""

from argparse import ArgumentParser
from typing import Any

from accounts.management.base import KeyCommand, describe, find_key, operator
from petstore.management.base import visible


class Command(KeyCommand):
    help = "Lift the ban of a key that kept sending after 429."
    examples = """
        manage.py unban_key 0Zl4dF9kQ2mXa7 --reason "They fixed their retries"
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", help="The key's public id.")
        parser.add_argument("--reason", required=True, metavar="TEXT", help="Why; kept with the key.")

    def run(self, options: dict[str, Any]) -> None:
        key = find_key(options["id"])
        key.unban(reason=options["reason"], by=operator())
        self.answer(
            options,
            describe(key),
            f"Done. Key {key.public_id} of {visible(key.account.name)} is free again.",
        )
