"""Narrow an API key."""

from argparse import ArgumentParser
from typing import Any

from django.forms import DateTimeField

from accounts.management.base import (
    KeyCommand,
    comma_separated,
    days_from_now,
    get_key,
    get_operator,
    serialize_key,
)
from petstore.management.base import escape_nonprintable


class Command(KeyCommand):
    help = "Remove rights from a key. Takes effect with the next request, and can't be undone."
    examples = """
        manage.py narrow_key 0Zl4dF9kQ2mXa7 --scopes pets:read,orders:read
        manage.py narrow_key 0Zl4dF9kQ2mXa7 --expires-in-days 7 --reason "The contract ends"
        manage.py narrow_key 0Zl4dF9kQ2mXa7 --expires-at 2026-12-31T18:00 --allow-from 192.0.2.0/28 --json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", help="The key's public ID.")
        text = "The scopes that remain. Default: unchanged."
        parser.add_argument("--scopes", type=comma_separated, metavar="A,B", help=text)
        end = parser.add_mutually_exclusive_group()
        text = "Days until the key and all its replacements expire. Default: unchanged."
        end.add_argument("--expires-in-days", type=int, metavar="N", help=text)
        end.add_argument("--expires-at", metavar="TIME", help="The expiry as a time (ISO 8601, in UTC).")
        text = "The networks that remain, each within one that the key allows. Default: unchanged."
        parser.add_argument("--allow-from", type=comma_separated, metavar="CIDR,CIDR", help=text)
        parser.add_argument("--reason", default="", metavar="TEXT", help="Stored in the key's history.")

    def run(self, options: dict[str, Any]) -> None:
        key = get_key(options["id"])
        key.narrow(
            key_scopes=options["scopes"],
            expires_at=DateTimeField(required=False).clean(options["expires_at"])
            or days_from_now(options["expires_in_days"]),
            allowed_networks=options["allow_from"],
            reason=options["reason"],
            by=get_operator(),
        )
        text = f"Done. Key {key.public_id} of {escape_nonprintable(key.account.name)} is narrowed."
        self.write_result(options, serialize_key(key), text)
