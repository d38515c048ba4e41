"""Add pets from a file."""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from django.core.management.base import CommandError
from django.db import IntegrityError

from inventory.import_export import FORMATS, STREAM, add, checked, format_of
from inventory.import_export.checking import IN_WORDS, Report, Row
from petstore.management.base import INTERRUPTED, JsonCommand, visible

if TYPE_CHECKING:
    from tqdm import tqdm

NOTHING = "Nothing was added."


class Command(JsonCommand):
    help = (
        "Add pets from a CSV or JSON Lines file: all of them, or none if a line is bad. Every bad line "
        "is reported with its number. CSV has commas, semicolons or tabs, and is UTF-8 or else "
        f"Windows-1252. Its first line names the columns, in any order: {IN_WORDS}. A "
        "column id is ignored, so that an export can be imported again; any other column is refused. "
        "JSON Lines has one object in each line, with members of these names; others are ignored, as by "
        "the API. Where a category is named, categoryId is ignored: ids differ from shop to shop. Blank "
        "lines are passed over."
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

    left = NOTHING

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", metavar="FILE", help="The file, or - for standard input.")
        text = "Default: as the file's name ends; CSV for standard input."
        parser.add_argument("--format", choices=FORMATS, help=text)
        parser.add_argument("--skip-bad", action="store_true", help="Add the good lines, report the bad.")
        parser.add_argument("--dry-run", action="store_true", help="Only check; add nothing.")
        text = "Report at most so many bad lines; all are counted. Default 100."
        parser.add_argument("--max-errors", type=int, default=100, metavar="N", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["max_errors"] < 0:
            raise CommandError("--max-errors must be 0 or more.")
        try:
            file_format = format_of(options["file"], options["format"])
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.left = NOTHING
        report = Report(room=options["max_errors"])
        try:
            added = self.run(file_format, report, options)
        except OSError as error:
            name = "Standard input" if options["file"] == STREAM else visible(options["file"])
            raise CommandError(f"{name} can't be read: {error.strerror}.") from None
        except IntegrityError:
            text = f"The database refused the pets. Was a category deleted meanwhile? {NOTHING}"
            raise CommandError(text) from None
        self.tell(file_format, report, added, options)

    def run(self, file_format: str, report: Report, options: dict[str, Any]) -> int:
        """Check the file, then add what is to be added; return how many that is.

        Good rows wait on the disk until all are checked: SQLite has one writer, and while a slow file kept
        it busy, every request would wait.
        """
        file = options["file"]
        opened = nullcontext(sys.stdin.buffer) if file == STREAM else Path(file).open("rb")  # noqa: SIM115
        with opened as stream, tempfile.TemporaryFile() as spool:
            with self.bar("Checking", None, options) as bar:
                for rows in checked(stream, file_format, report):
                    bar.update(len(rows))
                    if not options["dry_run"] and (options["skip_bad"] or not report.bad):
                        spool.write(orjson.dumps(rows) + b"\n")
            if options["dry_run"] or not report.readable or (report.bad and not options["skip_bad"]):
                return 0
            spool.seek(0)
            with self.bar("Adding", report.good, options) as bar:
                add(self.sent(map(orjson.loads, spool), bar))
        return report.good

    def sent(self, batches: Iterator[list[Row]], bar: tqdm[Any]) -> Iterator[list[Row]]:
        """Pass the batches on to the database; when it has them all, the commit may come through."""
        for rows in batches:
            yield rows
            bar.update(len(rows))
        self.left = "It was just saving: look whether the pets are there before you try again."

    def tell(self, file_format: str, report: Report, added: int, options: dict[str, Any]) -> None:
        """Print what happened. Raises CommandError, or with --json exits with 1, if a line was bad."""
        outcome = f"Added {added:,} pets." if added else NOTHING
        if options["json"]:
            told = {name: options[name] for name in ("file", "dry_run")} | {
                "format": file_format,
                "remark": report.remark,
            }
            found = {"good": report.good, "bad": report.bad, "added": added}
            errors = {"errors": [asdict(problem) for problem in report.problems]}
            self.stdout.write(json.dumps(told | found | errors))
            if report.bad:
                sys.exit(1)
            return
        if report.remark:
            self.stderr.write(report.remark)
        for problem in report.problems:
            self.stderr.write(f"Line {problem.line}: {problem.reason}")
        if more := report.bad - len(report.problems):
            self.stderr.write(f"{more:,} more bad lines are not shown; see --max-errors.")
        if report.bad:
            raise CommandError(f"Bad lines: {report.bad:,}; good ones: {report.good:,}. {outcome}")
        if options["dry_run"]:
            outcome = f"All {report.good:,} pets could be added; none was."
        self.stdout.write(f"Done. {outcome}")
