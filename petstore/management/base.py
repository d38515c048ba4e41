"""Base classes of commands: help with examples and exit statuses, --json, safe terminal output."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from textwrap import dedent, fill, indent
from typing import TYPE_CHECKING, Any, BinaryIO

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.core.management.base import BaseCommand, CommandError, DjangoHelpFormatter, OutputWrapper
from django.core.management.color import no_style
from django.db import OperationalError

from petstore.db.privileges import explain_failure

if TYPE_CHECKING:
    from tqdm import tqdm

INTERRUPTED = 130  # The exit status that shells report for SIGINT: 128 plus the signal number.
STATUSES = {0: "Done.", 1: "Failed; see standard error.", 2: "Invalid options."}
WIDTH = 80


class HelpFormatter(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Django's formatter, except that it does not rewrap the examples."""


def describe_database_failure(error: Exception, note: str = "") -> str:
    """Describe the failure in one line. `note` is a sentence about the state."""
    advice = explain_failure(error) or "manage.py doctor looks for the cause."
    message = re.sub(r"\w$", r"\g<0>.", str(error).strip())
    text = f"The database failed. {note} {message} {advice}"
    return escape_nonprintable(" ".join(text.split()))


def escape_nonprintable(text: str, keep: str = "") -> str:
    """Escape non-printable characters, such as control characters and bidirectional overrides."""
    return "".join(char if char.isprintable() or char in keep else f"\\u{ord(char):04x}" for char in text)


class VisibleOutput(OutputWrapper):
    """Output whose data cannot control the terminal. Line breaks are preserved."""

    def write(  # type: ignore[override]  # Like Django's own.
        self, msg: str = "", style_func: Any = None, ending: str | None = None
    ) -> None:
        try:
            super().write(escape_nonprintable(msg, keep="\n"), style_func, ending)
            self.flush()
        except OSError as error:
            discard_output()
            raise CommandError(f"Can't write standard output: {error.strerror}.") from None


class TerminalStream:
    """A binary stream to a terminal, which the text written to it can't control."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: bytes) -> int:
        self._stream.write(escape_nonprintable(text.decode(), keep="\r\n\ufeff").encode())
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


class DocumentedCommand(BaseCommand):
    """A command whose help lists examples, one per line, and exit statuses."""

    examples = ""
    statuses: dict[int, str] = {}  # Overrides and extends STATUSES.

    def __setattr__(self, name: str, value: Any) -> None:
        """Wrap the outputs, since Django sets them several times."""
        super().__setattr__(name, VisibleOutput(value._out) if name in {"stdout", "stderr"} else value)

    def check(self, *args: Any, **options: Any) -> None:
        """Run the checks without colours, which VisibleOutput would escape."""
        style, self.style = self.style, no_style()
        super().check(*args, **options)
        self.style = style

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        kwargs |= {"formatter_class": HelpFormatter, "epilog": self.format_epilog()}
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.description = fill(parser.description or "", WIDTH)
        error = parser.error
        parser.error = lambda message: error(escape_nonprintable(message))  # type: ignore[method-assign]
        return parser

    def format_epilog(self) -> str:
        examples = indent(dedent(self.examples).strip(), "  ")
        statuses = "\n".join(
            fill(f"{status}  {text}", WIDTH, initial_indent="  ", subsequent_indent="     ")
            for status, text in sorted((STATUSES | self.statuses).items())
        )
        return f"examples:\n{examples}\n\nexit status:\n{statuses}"


class JsonCommand(DocumentedCommand):
    """A command that prints text, or JSON with --json."""

    interrupted_note = ""  # A sentence about the state after an interruption.
    prints_json = False

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.add_argument("--json", action="store_true", help="Print JSON for programs.")
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Raise CommandError for invalid values, undecodable options, Ctrl-C and database failures."""
        self.prints_json = options["json"]
        try:
            return super().execute(*args, **options)
        except ValidationError as error:
            raise CommandError(join_messages(error)) from None
        except KeyboardInterrupt:
            raise CommandError(
                f"Stopped. {self.interrupted_note}".strip(), returncode=INTERRUPTED
            ) from None
        except UnicodeEncodeError:
            raise CommandError(f"An option is not valid UTF-8. {self.interrupted_note}".strip()) from None
        except OperationalError as error:
            raise CommandError(describe_database_failure(error, self.interrupted_note)) from None

    def write_result(self, data: Any, text: str) -> None:
        self.stdout.write(json.dumps(data, default=datetime.isoformat) if self.prints_json else text)

    def write_note(self, text: str) -> None:
        """Write to standard error without the style of an error."""
        self.stderr.write(text, lambda text: text)

    def progress_bar(self, activity: str, total: int | None = None) -> tqdm[Any]:
        """Return a progress bar on standard error, hidden with --json or if that is not a terminal."""
        from tqdm import tqdm  # Slow to import.

        return tqdm(desc=activity, total=total, leave=False, disable=True if self.prints_json else None)

    def count_deleted(self, batches: Iterable[int]) -> int:
        """Run a deletion that yields the sizes of its batches. Show its progress, and return the total."""
        deleted = 0
        with self.progress_bar("Deleting") as bar:
            for count in batches:
                deleted += count
                bar.update(count)
        return deleted


def join_messages(error: ValidationError) -> str:
    """Join all messages. Those of a field are prefixed with its name."""
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return " ".join(
        message if field == NON_FIELD_ERRORS else f"{field}: {message}"
        for field, messages in error.message_dict.items()
        for message in messages
    )


def discard_output() -> None:
    """Redirect standard output to /dev/null, so that the flush at exit does not fail again."""
    # Captured output has no file descriptor.
    with Path(os.devnull).open("wb") as devnull, suppress(OSError):
        os.dup2(devnull.fileno(), sys.stdout.fileno())
