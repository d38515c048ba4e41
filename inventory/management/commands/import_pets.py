"""Import pets from CSV or JSON Lines."""

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

from inventory.import_export import FORMATS, STREAM, add, detect_format, read_valid_batches
from inventory.import_export.checking import COLUMNS_HELP, Report, Row
from petstore.management.base import INTERRUPTED, JsonCommand, escape_nonprintable

if TYPE_CHECKING:
    from tqdm import tqdm

NOTHING = "Nothing was added."


class Command(JsonCommand):
    help = (
        "Import pets from a CSV or JSON Lines file: all of them, or none if a line is bad. Every bad line "
        "is reported with its number. CSV is separated by commas, semicolons or tabs, and encoded in UTF-8 "
        f"or Windows-1252. Its first line names the columns, in any order: {COLUMNS_HELP}. A column id is "
        "ignored, so that an export can be imported again; any other column is rejected. JSON Lines has "
        "one object per line, with members of these names; others are ignored, as by the API. A "
        "category's name takes precedence over categoryId, since ids differ between shops. Blank "
        "lines are skipped."
    )
    examples = """
        manage.py import_pets pets.csv --dry-run
        manage.py import_pets pets.csv --skip-bad --max-errors 20
        zcat pets.jsonl.gz | manage.py import_pets - --format jsonl --json
        """
    statuses = {
        1: "A line was bad, or the import failed; see standard error.",
        INTERRUPTED: "Interrupted by Ctrl-C; the last line says whether pets were added.",
    }

    interrupted_note = NOTHING

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", metavar="FILE", help="Input file, or - for standard input.")
        text = "Default: by the file extension; CSV for standard input."
        parser.add_argument("--format", choices=FORMATS, help=text)
        parser.add_argument("--skip-bad", action="store_true", help="Import good lines, report bad ones.")
        parser.add_argument("--dry-run", action="store_true", help="Check the file without importing it.")
        text = "Report at most N bad lines; all are counted. Default 100."
        parser.add_argument("--max-errors", type=int, default=100, metavar="N", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["max_errors"] < 0:
            raise CommandError("--max-errors must be 0 or more.")
        try:
            file_format = detect_format(options["file"], options["format"])
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.interrupted_note = NOTHING
        report = Report(max_problems=options["max_errors"])
        try:
            added = self.run(file_format, report, options)
        except OSError as error:
            name = "standard input" if options["file"] == STREAM else escape_nonprintable(options["file"])
            raise CommandError(f"Can't read {name}: {error.strerror}.") from None
        except IntegrityError:
            text = f"The database rejected the pets. Was a category deleted in the meantime? {NOTHING}"
            raise CommandError(text) from None
        self.report_outcome(file_format, report, added, options)

    def run(self, file_format: str, report: Report, options: dict[str, Any]) -> int:
        """Check the file, then import it; return the number of pets added.

        Valid rows are spooled to disk until the whole file is checked, so that a slow input does not hold
        SQLite's write lock.
        """
        file = options["file"]
        opened = nullcontext(sys.stdin.buffer) if file == STREAM else Path(file).open("rb")  # noqa: SIM115
        with opened as stream, tempfile.TemporaryFile() as spool:
            with self.progress_bar("Checking", None, options) as bar:
                for rows in read_valid_batches(stream, file_format, report):
                    bar.update(len(rows))
                    if not options["dry_run"] and (options["skip_bad"] or not report.bad):
                        spool.write(orjson.dumps(rows) + b"\n")
            if options["dry_run"] or not report.readable or (report.bad and not options["skip_bad"]):
                return 0
            spool.seek(0)
            with self.progress_bar("Adding", report.good, options) as bar:
                add(self.track(map(orjson.loads, spool), bar))
        return report.good

    def track(self, batches: Iterator[list[Row]], bar: tqdm[Any]) -> Iterator[list[Row]]:
        """Advance the bar. An interrupt after the last batch leaves the outcome of COMMIT unknown."""
        for rows in batches:
            yield rows
            bar.update(len(rows))
        self.interrupted_note = "It may have been committed: check whether the pets exist before you retry."

    def report_outcome(self, file_format: str, report: Report, added: int, options: dict[str, Any]) -> None:
        """Raise CommandError if a line was bad, or exit with 1 with --json."""
        outcome = f"Added {added:,} pets." if added else NOTHING
        if options["json"]:
            summary = {name: options[name] for name in ("file", "dry_run")} | {
                "format": file_format,
                "remark": report.remark,
            }
            counts = {"good": report.good, "bad": report.bad, "added": added}
            errors = {"errors": [asdict(problem) for problem in report.problems]}
            self.stdout.write(json.dumps(summary | counts | errors))
            if report.bad:
                sys.exit(1)
            return
        if report.remark:
            self.stderr.write(report.remark)
        for problem in report.problems:
            self.stderr.write(f"Line {problem.line}: {problem.reason}")
        if more := report.bad - len(report.problems):
            self.stderr.write(f"{more:,} more bad lines are not listed; see --max-errors.")
        if report.bad:
            raise CommandError(f"Bad lines: {report.bad:,}; good lines: {report.good:,}. {outcome}")
        if options["dry_run"]:
            outcome = f"All {report.good:,} pets are valid; none was added."
        self.stdout.write(f"Done. {outcome}")
