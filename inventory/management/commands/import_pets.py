"""Import pets from CSV or JSON Lines."""

import json
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import IntegrityError

from inventory.import_export import FORMATS, STREAM, add_pets, detect_format, read_valid_pets
from inventory.import_export.validation import COLUMNS_HELP, PetAttributes, Report
from petstore.management.base import INTERRUPTED, JsonCommand, escape_nonprintable
from petstore.text import format_count

NOTHING_ADDED = "Nothing was added."


class Command(JsonCommand):
    help = (
        "Import pets from a CSV or JSON Lines file: all of them, or none if a line is invalid (but see "
        "--skip-bad). Invalid lines are reported by number. CSV values are separated by commas, "
        "semicolons or tabs, and encoded in UTF-8 or Windows-1252. The first line names the columns, in "
        f"any order: {COLUMNS_HELP}. An id column is ignored, so that an export can be imported "
        "again; any other column is rejected. JSON Lines has one object per line, with fields of these "
        "names; others are ignored, as in the API. A category's name takes precedence over categoryId, "
        "since ids differ between shops. Blank lines are skipped."
    )
    examples = """
        manage.py import_pets pets.csv --dry-run
        manage.py import_pets pets.csv --skip-bad --max-errors 20
        zcat pets.jsonl.gz | manage.py import_pets - --format jsonl --json
        """
    statuses = {
        1: "A line was invalid, or the import failed; see the output.",
        INTERRUPTED: "Interrupted by Ctrl-C; the last line says whether pets may have been added.",
    }
    interrupted_note = NOTHING_ADDED

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="Input file, or - for standard input.")
        text = "The default depends on the file extension. It is CSV for standard input."
        parser.add_argument("--format", choices=FORMATS, help=text)
        parser.add_argument(
            "--skip-bad", action="store_true", help="Import the valid lines and report the invalid ones."
        )
        parser.add_argument("--dry-run", action="store_true", help="Check the file without importing it.")
        text = "Report at most N invalid lines, but count all of them. Default: 100."
        parser.add_argument("--max-errors", type=int, default=100, metavar="N", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["max_errors"] < 0:
            raise CommandError("--max-errors must be 0 or more.")
        file_format = detect_format(options["file"], options["format"])
        report = Report(max_problems=options["max_errors"])
        try:
            added = self.import_file(file_format, report, options)
        except OSError as error:
            name = "standard input" if options["file"] == STREAM else escape_nonprintable(options["file"])
            raise CommandError(f"Can't read {name}: {error.strerror}.") from None
        except IntegrityError:
            text = "The database rejected the pets. Was a category deleted in the meantime?"
            raise CommandError(f"{text} {NOTHING_ADDED}") from None
        if self.prints_json:
            self.write_json(file_format, report, added, options)
        else:
            self.write_text(report, added, dry_run=options["dry_run"])

    def import_file(self, file_format: str, report: Report, options: dict[str, Any]) -> int:
        """Check the file, then import it. Return the number of pets added.

        Valid pets are spooled to disk until the whole file is checked, so that a slow input does not hold
        SQLite's write lock.
        """
        file, skips_bad = options["file"], options["skip_bad"]
        source = nullcontext(sys.stdin.buffer) if file == STREAM else Path(file).open("rb")  # noqa: SIM115
        with source as stream, tempfile.TemporaryFile() as spool:
            with self.progress_bar("Checking") as bar:
                for pet in read_valid_pets(stream, file_format, report):
                    bar.update()
                    if not options["dry_run"] and (skips_bad or not report.bad_lines):
                        spool.write(orjson.dumps(pet, option=orjson.OPT_APPEND_NEWLINE))
            if options["dry_run"] or not report.is_readable or (report.bad_lines and not skips_bad):
                return 0
            spool.seek(0)
            # Closing the generator removes the progress bar before a message is printed.
            with closing(self.track_progress(map(orjson.loads, spool), report.good_lines)) as pets:
                add_pets(pets)
        return report.good_lines

    def track_progress(self, pets: Iterator[PetAttributes], total: int) -> Generator[PetAttributes]:
        with self.progress_bar("Adding", total) as bar:
            for pet in pets:
                yield pet
                bar.update()
        # The transaction commits next, so the outcome of an interruption is unknown from here on.
        self.interrupted_note = (
            "The import may have been committed: check whether the pets exist before you retry."
        )

    def write_json(self, file_format: str, report: Report, added: int, options: dict[str, Any]) -> None:
        """Exit with status 1 if a line was invalid."""
        summary = {
            "file": options["file"],
            "dry_run": options["dry_run"],
            "format": file_format,
            "remark": report.warning,
            "good": report.good_lines,
            "bad": report.bad_lines,
            "added": added,
            "errors": [asdict(problem) for problem in report.problems],
        }
        self.stdout.write(json.dumps(summary))
        if report.bad_lines:
            sys.exit(1)

    def write_text(self, report: Report, added: int, *, dry_run: bool) -> None:
        """Raise CommandError if a line was invalid."""
        if report.warning:
            self.stderr.write(report.warning)
        for problem in report.problems:
            self.stderr.write(f"Line {problem.line}: {problem.reason}")
        if unlisted := report.bad_lines - len(report.problems):
            self.stderr.write(
                f"{format_count(unlisted, 'more invalid line')} not listed; see --max-errors."
            )
        outcome = f"Added {format_count(added, 'pet')}." if added else NOTHING_ADDED
        if report.bad_lines:
            counts = f"Invalid lines: {report.bad_lines:,}; valid lines: {report.good_lines:,}."
            raise CommandError(f"{counts} {outcome}")
        if dry_run:
            outcome = f"The file is valid ({format_count(report.good_lines, 'pet')}). {NOTHING_ADDED}"
        self.stdout.write(f"Done. {outcome}")
