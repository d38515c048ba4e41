"""Check a running deployment from inside."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from petstore.health import doctor
from petstore.management.base import JsonCommand, escape_nonprintable


class Command(JsonCommand):
    requires_system_checks: list[str] = []  # The first check runs them.
    help = (
        "Check this deployment from inside: settings, database, snapshots, clocks, folders, kernel, "
        "workers, address, metrics, backlogs. Says what to do about each problem. Changes nothing. Run it "
        "as the user of the service."
    )
    examples = """
        manage.py doctor
        manage.py doctor --port 8001
        """
    statuses = {0: "No check found a problem.", 1: "At least one check found a problem."}

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Address of the instance.")
        parser.add_argument("--port", type=int, default=settings.PORT, help="Port of the instance.")

    def handle(self, *args: Any, **options: Any) -> None:
        results = [doctor.run(name, options["host"], options["port"]) for name in doctor.CHECKS]
        problems = sum(result["state"] == "problem" for result in results)
        lines = [*map(format_result, results), f"Problems found: {problems}."]
        self.write_result({"problems": problems, "checks": results}, "\n".join(lines))
        if problems:
            sys.exit(1)


def format_result(result: dict[str, Any]) -> str:
    line = f"{result['state']:8} {result['name'].capitalize()}: {escape_nonprintable(result['detail'])}"
    return f"{line}\n         Next: {result['next']}" if result["next"] else line
