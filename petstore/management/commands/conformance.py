"""A pointer to where the conformance checks went, for one version."""

from argparse import REMAINDER, ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from petstore.management.base import JsonCommand

PLACE = "`make conformance URL=... KEY=...` in a checkout of the repository"


class Command(JsonCommand):
    help = f"Gone: run {PLACE}. The next version removes this command."
    examples = "manage.py conformance"
    statuses = {1: "Always."}

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("options", nargs=REMAINDER, help="Ignored.")

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError(f"The checks are now a test suite: run {PLACE}. See docs/operating.md.")
