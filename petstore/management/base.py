"""What our commands have in common: help with examples and exit statuses, and --json."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from contextlib import suppress
from pathlib import Path
from textwrap import dedent, fill
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError, DjangoHelpFormatter, OutputWrapper
from django.core.management.color import no_style
from django.db import OperationalError

if TYPE_CHECKING:
    from tqdm import tqdm

INTERRUPTED = 130  # The exit status that shells give to what Ctrl-C stopped: 128 and the signal's number.
# What every command answers beside what it says of its own.
STATUSES = {0: "Done.", 1: "It could not be done; standard error says why.", 2: "Wrong options."}
WIDTH = 80


class HelpFormatter(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Django's order of options, and the examples' own lines."""


def visible(text: str, keep: str = "") -> str:
    """Escape control characters, bidirectional overrides and others that a terminal obeys or hides."""
    return "".join(char if char.isprintable() or char in keep else f"\\u{ord(char):04x}" for char in text)


class VisibleOutput(OutputWrapper):
    """Output in which names and file names can't control the terminal; line breaks stay."""

    def write(  # type: ignore[override]  # As Django's own.
        self, msg: str = "", style_func: Any = None, ending: str | None = None
    ) -> None:
        try:
            super().write(visible(msg, keep="\n"), style_func, ending)
            self.flush()
        except OSError as error:
            forget_output()
            raise CommandError(f"Standard output can't be written: {error.strerror}.") from None


class DocumentedCommand(BaseCommand):
    """A command whose help has examples, one command line in each line, and its exit statuses."""

    examples = ""
    statuses: dict[int, str] = {}  # What differs from STATUSES, or comes on top.

    def __setattr__(self, name: str, value: Any) -> None:
        """Let every output of the command be visible, whenever Django sets it."""
        super().__setattr__(name, VisibleOutput(value._out) if name in {"stdout", "stderr"} else value)

    def check(self, *args: Any, **options: Any) -> None:
        """Run the checks; their report has no colours, which would be escaped."""
        style, self.style = self.style, no_style()
        super().check(*args, **options)
        self.style = style

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Return the parser, with examples and exit statuses below the options."""
        told = sorted((STATUSES | self.statuses).items())
        epilog = "\n".join(
            [
                "examples:",
                *(f"  {line}" for line in dedent(self.examples).strip().splitlines()),
                "",
                "exit status:",
                *(
                    fill(f"{status}  {text}", WIDTH, initial_indent="  ", subsequent_indent="     ")
                    for status, text in told
                ),
            ]
        )
        kwargs |= {"formatter_class": HelpFormatter, "epilog": epilog}
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.description = fill(parser.description or "", WIDTH)
        error = parser.error
        parser.error = lambda message: error(visible(message))  # type: ignore[method-assign]
        return parser


class JsonCommand(DocumentedCommand):
    """A command that tells what it did to people, and with --json to programs."""

    left = ""  # What it leaves if it stops midway, in a sentence.

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print JSON for programs.")

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run; say in a sentence what Ctrl-C, or a database that is away, has left."""
        try:
            return super().execute(*args, **options)
        except KeyboardInterrupt:
            raise CommandError(f"Stopped. {self.left}".strip(), returncode=INTERRUPTED) from None
        except UnicodeEncodeError:
            raise CommandError(f"An option is not text in UTF-8. {self.left}".strip()) from None
        except OperationalError as error:
            raise CommandError(f"The database failed. {self.left} {error}") from None

    def answer(self, options: dict[str, Any], data: Any, text: str, style: Any = None) -> None:
        """Print the data for programs, or the text for people."""
        self.stdout.write(json.dumps(data) if options["json"] else text, style)

    def say(self, text: str) -> None:
        """Tell people something beside the answer, on standard error but not as an error."""
        self.stderr.write(text, lambda text: text)

    def bar(self, doing: str, total: int | None, options: dict[str, Any]) -> tqdm[Any]:
        """Return a progress bar for people at a terminal, on standard error; it is wiped at the end.

        `total` is None where the end is unknown.
        """
        from tqdm import tqdm  # Takes 0.1 seconds that few commands need.

        return tqdm(desc=doing, total=total, leave=False, disable=True if options["json"] else None)


def forget_output() -> None:
    """Let Python's last flush of standard output go nowhere: it would fail again, and with a traceback."""
    with Path(os.devnull).open("wb") as nowhere, suppress(OSError):  # No fileno in tests.
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
