"""Rotate an API key."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from accounts.management.base import get_key, get_operator, serialize_key
from accounts.models import ROTATION_OVERLAP
from petstore.management.base import JsonCommand

MAX_HOURS = 24 * 365


class Command(JsonCommand):
    help = (
        "Issue a replacement for a key. The old key keeps working for a while, so that clients can switch."
    )
    examples = """
        manage.py rotate_key 0Zl4dF9kQ2mXa7
        manage.py rotate_key 0Zl4dF9kQ2mXa7 --overlap-hours 2 --json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="The key's public ID.")
        hours = ROTATION_OVERLAP // timedelta(hours=1)
        text = f"How long the old key keeps working, unless it expires earlier. Default: {hours}."
        parser.add_argument("--overlap-hours", type=int, default=hours, metavar="N", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["overlap_hours"] <= MAX_HOURS:
            raise CommandError(f"--overlap-hours must be from 0 to {MAX_HOURS}.")
        old = get_key(options["id"])
        new, key_text = old.rotate(by=get_operator(), overlap=timedelta(hours=options["overlap_hours"]))
        data = {"key": key_text, **serialize_key(new), "replaces": serialize_key(old)}
        text = f"Key {new.public_id} replaces {old.public_id}, which expires at {old.expires_at}."
        self.write_result(data, f"{key_text}\n\n{text} Copy it now: it can't be shown again.")
