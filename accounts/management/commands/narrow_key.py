"""Narrow an API key."""

from argparse import ArgumentParser
from typing import Any

from django.forms import DateTimeField

from accounts.management.base import KeyActionCommand, comma_separated, days_from_now
from accounts.models import ApiKey


class Command(KeyActionCommand):
    help = "Remove rights from a key. Takes effect with the next request, and can't be undone."
    examples = """
        manage.py narrow_key 0Zl4dF9kQ2mXa7 --scopes pets:read,orders:read
        manage.py narrow_key 0Zl4dF9kQ2mXa7 --expires-in-days 7 --reason "The contract ends"
        manage.py narrow_key 0Zl4dF9kQ2mXa7 --expires-at 2026-12-31T18:00 --allow-from 192.0.2.0/28 --json
        """

    action, outcome, requires_reason = ApiKey.narrow, "narrowed", False

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        text = "The scopes that remain. Default: unchanged."
        parser.add_argument("--scopes", type=comma_separated, metavar="A,B", help=text)
        end = parser.add_mutually_exclusive_group()
        text = "Days until the key and its later replacements expire at the latest. Default: unchanged."
        end.add_argument("--expires-in-days", type=int, metavar="N", help=text)
        end.add_argument("--expires-at", metavar="TIME", help="The expiry as a time (ISO 8601, in UTC).")
        text = "The networks that remain, each within one that the key allows. Default: unchanged."
        parser.add_argument("--allow-from", type=comma_separated, metavar="CIDR,CIDR", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(**options)
        if replacement := ApiKey.objects.filter(rotated_from__public_id=options["id"]).first():
            self.stderr.write(f"Its replacement, key {replacement}, keeps its rights.")

    def get_values(self, options: dict[str, Any]) -> dict[str, Any]:
        expires_at = DateTimeField(required=False).clean(options["expires_at"])
        return {
            "key_scopes": options["scopes"],
            "expires_at": expires_at or days_from_now(options["expires_in_days"]),
            "allowed_networks": options["allow_from"],
        }
