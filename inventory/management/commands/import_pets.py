"""Add animals from a file."""

import json
import os
import stat
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import CommandError
from django.db import DatabaseError, IntegrityError

from inventory.import_export import INTERRUPTED, READ_FORMATS, STREAM, format_of
from inventory.import_export.checking import Checker, Report, Row, good_rows
from inventory.import_export.lines import Lines
from inventory.import_export.reading import READERS
from inventory.import_export.storing import Spool, add, category_ids
from petstore.management.base import JsonCommand
from petstore.progress import Progress


class Command(JsonCommand):
    help = (
        "Add animals from a CSV, JSON or JSON Lines file: all of them, or none if a line is bad. Every bad "
        "line is reported with its number. CSV is UTF-8 with commas; its first line names the columns, in "
        "any order: name; category (a category's name) or categoryId; status (available, pending or sold; "
        "available if it is left out). A column id is ignored, so that an export can be imported again; "
        "any other column is refused. JSON Lines has one object in each line, with members of these "
        "names; others are ignored, as by the API. JSON is one array of such objects, laid out at will; a "
        "bad one is reported with the line on which it begins. Where a category is named, categoryId is "
        "ignored: ids differ from shop to shop. Blank lines are passed over."
    )
    examples = """
        manage.py import_pets pets.csv --dry-run
        manage.py import_pets pets.csv --skip-bad --max-errors 20
        zcat pets.jsonl.gz | manage.py import_pets - --format jsonl --json
        """
    statuses = {
        1: "A line was bad, or it could not be done; standard error says which and why.",
        INTERRUPTED: "Stopped by Ctrl-C; the last line says whether anything was added.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", metavar="FILE", help="The file, or - for standard input.")
        parser.add_argument(
            "--format",
            choices=READ_FORMATS,
            help="Default: as the file's name ends; CSV for standard input.",
        )
        parser.add_argument("--skip-bad", action="store_true", help="Add the good lines, report the bad.")
        parser.add_argument("--dry-run", action="store_true", help="Only check; add nothing.")
        parser.add_argument(
            "--max-errors", type=int, default=100, metavar="N",
            help="Report at most so many bad lines; all are counted. Default 100.",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        if options["max_errors"] < 0:
            raise CommandError("--max-errors must be 0 or more.")
        try:
            file_format = format_of(options["file"], options["format"], READ_FORMATS)
        except ValueError as error:
            raise CommandError(str(error)) from None
        report = Report(room=options["max_errors"])
        self.all_sent = False
        try:
            added = self.run(file_format, report, options)
        except OSError as error:
            name = "Standard input" if options["file"] == STREAM else options["file"]
            raise CommandError(f"{name} can't be read: {error.strerror}.") from None
        except IntegrityError:
            raise CommandError(
                "The database refused the animals. Was a category deleted meanwhile? Nothing was added."
            ) from None
        except DatabaseError as error:
            raise CommandError(f"The database failed. {self.outcome()} {error}") from None
        except KeyboardInterrupt:
            raise CommandError(f"Stopped. {self.outcome()}", returncode=INTERRUPTED) from None
        self.tell(file_format, report, added, options)

    def run(self, file_format: str, report: Report, options: dict[str, Any]) -> int:
        """Check the file, then add what is to be added; return how many that is."""
        bars = None if options["json"] else sys.stderr
        with opened(options["file"]) as stream, tempfile.TemporaryFile() as file:
            spool = Spool(file)
            lines = Lines(stream)
            records = READERS[file_format](lines)
            with Progress("Checking", size(stream), bars) as progress:
                for rows in good_rows(records, Checker(category_ids()), report):
                    progress.show(lines.bytes)
                    if not options["dry_run"] and (options["skip_bad"] or not report.bad):
                        spool.put(rows)
            if options["dry_run"] or not report.readable or (report.bad and not options["skip_bad"]):
                return 0
            with Progress("Adding", report.good, bars) as progress:
                add(self.sent(spool.batches(), progress))
        return report.good

    def sent(self, batches: Iterator[list[Row]], progress: Progress) -> Iterator[list[Row]]:
        """Pass the batches on to the database, and note when it has them all."""
        done = 0
        for rows in batches:
            yield rows
            done += len(rows)
            progress.show(done)
        self.all_sent = True

    def outcome(self) -> str:
        """Return what a failure left. With everything sent, the commit may have come through."""
        if self.all_sent:
            return "It was just saving: look whether the animals are there before you try again."
        return "Nothing was added."

    def tell(self, file_format: str, report: Report, added: int, options: dict[str, Any]) -> None:
        """Print what happened. Raises CommandError or exits with 1 if a line was bad."""
        if options["json"]:
            summary = {
                "file": options["file"],
                "format": file_format,
                "good": report.good,
                "bad": report.bad,
                "added": added,
                "dry_run": options["dry_run"],
                "errors": [{"line": problem.line, "reason": problem.reason} for problem in report.problems],
            }
            self.stdout.write(json.dumps(summary))
            if report.bad:
                sys.exit(1)
            return
        for problem in report.problems:
            self.stderr.write(f"Line {problem.line}: {problem.reason}")
        if more := report.bad - len(report.problems):
            self.stderr.write(f"{more:,} more bad lines are not shown; see --max-errors.")
        outcome = f"Added {added:,} animals." if added else "Nothing was added."
        if report.bad:
            raise CommandError(f"Bad lines: {report.bad:,}; good ones: {report.good:,}. {outcome}")
        if options["dry_run"]:
            outcome = f"All {report.good:,} animals could be added; none was."
        self.stdout.write(f"Done. {outcome}")


def opened(file: str) -> AbstractContextManager[BinaryIO]:
    """Open the file, or standard input."""
    if file != STREAM:
        return Path(file).open("rb")
    if sys.stdin is None:
        raise CommandError("There is no standard input.")
    return nullcontext(sys.stdin.buffer)


def size(stream: BinaryIO) -> int | None:
    """Return the bytes of a regular file; of a pipe nobody knows them."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # No file of the operating system.
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
