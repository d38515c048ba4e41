"""Export pets as CSV or JSON Lines."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from inventory.import_export import FORMATS, STREAM, detect_format, export, snapshot
from inventory.import_export.writing import CSV_COLUMNS, Exported, atomic_file, write
from inventory.models import Category, Pet, PetQuerySet, PetStatus
from petstore.db.names import find_by_name
from petstore.management.base import INTERRUPTED, JsonCommand, discard_output, escape_nonprintable


class Command(JsonCommand):
    help = (
        "Export a consistent snapshot of the pets, by ascending id, in UTF-8: as CSV "
        f"({', '.join(CSV_COLUMNS)}) or JSON Lines (the API's Pet with its category's name). import_pets "
        "reads both. The file is created or replaced only once it is complete."
    )
    examples = """
        manage.py export_pets pets.csv
        manage.py export_pets --format jsonl --status available | gzip > pets.jsonl.gz
        manage.py export_pets dogs.csv --category Dogs --for-spreadsheets
        """
    interrupted_note = "The export is not complete."
    statuses = {INTERRUPTED: "Stopped by Ctrl-C; the export is not complete."}

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        text = "Output file. Default, or with -: standard output."
        parser.add_argument("file", nargs="?", default=STREAM, metavar="FILE", help=text)
        text = "Default: by the file extension; CSV for standard output."
        parser.add_argument("--format", choices=FORMATS, help=text)
        parser.add_argument("--status", choices=PetStatus.values, help="Only pets with this status.")
        parser.add_argument("--category", metavar="NAME", help="Only pets of this category.")
        text = (
            "For CSV: prefix names that a spreadsheet would run as a formula (they start with = + - @) "
            "with ', and start the file with a byte order mark. import_pets removes both."
        )
        parser.add_argument("--for-spreadsheets", action="store_true", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        file = options["file"]
        try:
            file_format = detect_format(file, options["format"])
        except ValueError as error:
            raise CommandError(str(error)) from None
        if options["for_spreadsheets"] and file_format != "csv":
            raise CommandError("--for-spreadsheets requires CSV.")
        pets = select_pets(options["status"], options["category"])
        self.count = 0
        try:
            opened = nullcontext(sys.stdout.buffer) if file == STREAM else atomic_file(Path(file))
            with opened as stream, snapshot(), closing(self.counted(export(pets), options)) as rows:
                write(rows, stream, file_format, for_spreadsheets=options["for_spreadsheets"])
                stream.flush()
        except OSError as error:
            if file == STREAM:
                discard_output()
            name = "standard output" if file == STREAM else escape_nonprintable(file)
            raise CommandError(f"Can't write {name}: {error.strerror}.") from None
        out = self.stdout if file != STREAM else self.stderr  # Keep the message out of the export.
        result = json.dumps({"file": file, "format": file_format, "pets": self.count})
        out.write(result if options["json"] else f"Done. Exported {self.count:,} pets.", lambda text: text)

    def counted(self, rows: Iterator[Exported], options: dict[str, Any]) -> Generator[Exported, None, None]:
        with self.progress_bar("Writing", None, options) as bar:
            for row in rows:
                yield row
                self.count += 1
                bar.update()


def select_pets(status: str | None, category: str | None) -> PetQuerySet:
    """Raise CommandError for an unknown category."""
    found = find_by_name(Category.objects.all(), category) if category is not None else None
    if category is not None and found is None:
        raise CommandError(f"No category has the name {category!r}.")
    conditions = {"status": status, "category": found}
    return Pet.objects.filter(**{name: value for name, value in conditions.items() if value is not None})
