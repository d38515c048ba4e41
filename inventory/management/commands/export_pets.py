"""Write the pets to a file."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from inventory.import_export import FORMATS, STREAM, export, format_of, snapshot
from inventory.import_export.writing import CSV_COLUMNS, Exported, whole_file, write
from inventory.models import Category, Pet, PetQuerySet, PetStatus
from petstore.db.names import named
from petstore.management.base import INTERRUPTED, JsonCommand, forget_output, visible


class Command(JsonCommand):
    help = (
        f"Write the pets of one moment, by ascending id, as CSV ({', '.join(CSV_COLUMNS)}) or JSON "
        "Lines (the API's Pet, and its category's name), in UTF-8. import_pets reads both. A file "
        "appears, or replaces an older one, only once it is complete."
    )
    examples = """
        manage.py export_pets pets.csv
        manage.py export_pets --format jsonl --status available | gzip > pets.jsonl.gz
        manage.py export_pets dogs.csv --category Dogs --for-spreadsheets
        """
    left = "The export is not complete."
    statuses = {INTERRUPTED: "Stopped by Ctrl-C; the export is not complete."}

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        text = "The file; without it, or with -, standard output."
        parser.add_argument("file", nargs="?", default=STREAM, metavar="FILE", help=text)
        text = "Default: as the file's name ends; CSV for standard output."
        parser.add_argument("--format", choices=FORMATS, help=text)
        parser.add_argument("--status", choices=PetStatus.values, help="Only pets with this status.")
        parser.add_argument("--category", metavar="NAME", help="Only pets of this category.")
        text = (
            "For a CSV file that people open: put a ' before each name that a spreadsheet would calculate "
            "(it starts with = + - @), and a byte order mark before everything. import_pets takes both "
            "out again."
        )
        parser.add_argument("--for-spreadsheets", action="store_true", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        file = options["file"]
        try:
            file_format = format_of(file, options["format"])
        except ValueError as error:
            raise CommandError(str(error)) from None
        if options["for_spreadsheets"] and file_format != "csv":
            raise CommandError("--for-spreadsheets is for CSV.")
        pets = chosen(options["status"], options["category"])
        self.count = 0
        try:
            opened = nullcontext(sys.stdout.buffer) if file == STREAM else whole_file(Path(file))
            with opened as stream, snapshot(), closing(self.counted(export(pets), options)) as rows:
                write(rows, stream, file_format, for_spreadsheets=options["for_spreadsheets"])
                stream.flush()
        except OSError as error:
            if file == STREAM:
                forget_output()
            name = "Standard output" if file == STREAM else visible(file)
            raise CommandError(f"{name} can't be written: {error.strerror}.") from None
        out = self.stdout if file != STREAM else self.stderr  # Beside the export, not in it; nor in red.
        told = json.dumps({"file": file, "format": file_format, "pets": self.count})
        out.write(told if options["json"] else f"Done. Wrote {self.count:,} pets.", lambda text: text)

    def counted(self, rows: Iterator[Exported], options: dict[str, Any]) -> Generator[Exported, None, None]:
        """Pass the rows on, and count them."""
        with self.bar("Writing", None, options) as bar:
            for row in rows:
                yield row
                self.count += 1
                bar.update()


def chosen(status: str | None, category: str | None) -> PetQuerySet:
    """Return the pets to be written. Raises CommandError for an unknown category."""
    found = named(Category.objects.all(), category) if category is not None else None
    if category is not None and found is None:
        raise CommandError(f"No category has the name {category!r}.")
    wanted = {"status": status, "category": found}
    return Pet.objects.filter(**{name: value for name, value in wanted.items() if value is not None})
