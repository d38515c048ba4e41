"""Check a deployment against the contract."""

import re
import sys
from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import CommandError

from petstore.conformance.client import UnreachableError, add_key_option, get_url_and_key
from petstore.conformance.rules import CHECKS
from petstore.conformance.session import Outcome, Session
from petstore.management.base import INTERRUPTED, JsonCommand

INCOMPLETE = 2
STYLES = {
    Outcome.PASSED: "SUCCESS",
    Outcome.FAILED: "ERROR",
    Outcome.SKIPPED: "NOTICE",
    Outcome.NOT_RUN: "WARNING",
}


class Command(JsonCommand):
    help = (
        "Check a deployment, such as staging or production, against the contract over HTTP: schemas, "
        "headers, error codes, pagination, caching, deprecation and quota. Sends about 60 requests with "
        "the key, or 80 with --write, and stops before its quota is used up. The Free plan suffices for "
        "60. Read-only unless --write is given."
    )
    examples = """
        PETSTORE_KEY=psk_live_... manage.py conformance https://api.example.com/v1
        manage.py conformance https://staging.example.com/v1 --key psk_test_... --write
        manage.py conformance http://localhost:8000/v1 --key psk_live_... --json
        """
    statuses = {
        0: "All checks that could run passed.",
        1: "At least one check failed. The report names the violated rule and where it is documented: "
        "docs/decisions.md for a number such as D9, docs/contract.md for a section of the contract. "
        "/docs/errors explains the error codes.",
        2: "No check failed, but some could not run (no response, a rejected key, a low quota, a missing "
        "scope), or an option is invalid.",
        INTERRUPTED: "Interrupted by Ctrl-C; standard error lists what was left behind.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", metavar="URL", help="The API's address, ending in /v1.")
        add_key_option(parser, "An API key with all scopes.")
        text = "Also create a pet, order it, cancel the order, and follow the feed. The pet remains."
        parser.add_argument("--write", action="store_true", help=text)
        text = "Send at most N requests with the key. Default: 100."
        parser.add_argument("--budget", type=int, default=100, metavar="N", help=text)
        text = "Stop when only N requests remain in the quota. Default: 2."
        parser.add_argument("--keep", type=int, default=2, metavar="N", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["budget"] < 1 or options["keep"] < 0:
            raise incomplete_error("--budget must be 1 or more, --keep 0 or more.")
        session = Session(*get_url_and_key(options), options["budget"], options["keep"])
        results: list[dict[str, Any]] = []
        try:
            if session.send("GET", "/categories?limit=1").status == 401:
                advice = "Check that the key is complete and belongs to this deployment."
                raise incomplete_error(f"{session.url} rejects the key (401). {advice}")
            checks = [check for check in CHECKS if options["write"] or not check.writes]
            with self.progress_bar("Checking", len(checks)) as bar:
                for check in checks:
                    results.append(check.run(session))
                    bar.update()
        except UnreachableError as error:
            raise incomplete_error(str(error)) from None
        finally:
            for item in session.left_behind:
                self.write_note(f"Left behind: {item}.")
        self.report(session, results, options)

    def report(self, session: Session, results: list[dict[str, Any]], options: dict[str, Any]) -> None:
        """Print the results, and exit with 1 if a check failed, or 2 if one could not run."""
        outcomes = Counter(result["outcome"] for result in results)
        counts = {outcome.value: outcomes[outcome] for outcome in Outcome}
        data = {"url": session.url, "requests": len(session.authenticated_responses), "counts": counts}
        data |= {"left_behind": session.left_behind, "checks": results}
        totals = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        summary = f"{session.url}: {totals}. {len(session.authenticated_responses)} requests with the key."
        text = "\n".join([*map(format_result, results), "", summary])
        self.write_result(data, text, self.colour_outcomes)
        if counts[Outcome.FAILED]:
            sys.exit(1)
        if counts[Outcome.NOT_RUN]:
            sys.exit(INCOMPLETE)

    def colour_outcomes(self, text: str) -> str:
        for outcome, style in STYLES.items():
            word = f"{outcome.value:8}"
            text = re.sub(f"^{word}", getattr(self.style, style)(word), text, flags=re.MULTILINE)
        return text


def format_result(result: dict[str, Any]) -> str:
    lines = [f"{result['outcome']:8} {result['title']} ({result['rule']})"]
    if result["detail"]:
        lines.append(result["detail"])
    if result["outcome"] == Outcome.FAILED:
        lines.append(f"See {', '.join(result['see'])}.")
    return "\n         ".join(lines)


def incomplete_error(reason: str) -> CommandError:
    return CommandError(reason, returncode=INCOMPLETE)
