"""Export pets as CSV or JSON Lines."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from inventory.import_export import FORMATS, STREAM, consistent_snapshot, detect_format, stream_pets
from inventory.import_export.writers import CSV_COLUMNS, ExportedPet, open_atomically, write_pets
from inventory.models import Category, Pet, PetQuerySet, PetStatus
from petstore.db.names import find_by_name
from petstore.management.base import (
    INTERRUPTED,
    JsonCommand,
    TerminalStream,
    discard_output,
    escape_nonprintable,
)


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
    statuses = {INTERRUPTED: "Interrupted by Ctrl-C; the export is not complete."}

    def add_arguments(self, parser: ArgumentParser) -> None:
        text = "Output file, or - for standard output, the default."
        parser.add_argument("file", nargs="?", default=STREAM, metavar="FILE", help=text)
        text = "The default depends on the file extension. It is CSV for standard output."
        parser.add_argument("--format", choices=FORMATS, help=text)
        text = "Export only pets with this status."
        parser.add_argument("--status", choices=PetStatus.values, help=text)
        parser.add_argument("--category", metavar="NAME", help="Export only pets of this category.")
        text = (
            "For CSV: prefix names that a spreadsheet would evaluate as formulas (they start with = + - @) "
            "with ', and start the file with a byte order mark. import_pets removes both."
        )
        parser.add_argument("--for-spreadsheets", action="store_true", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        file = options["file"]
        to_stdout = file == STREAM
        file_format = detect_format(file, options["format"])
        if options["for_spreadsheets"] and file_format != "csv":
            raise CommandError("--for-spreadsheets requires CSV.")
        pets = filter_pets(options["status"], options["category"])
        self.exported_count = 0
        stdout: Any = sys.stdout.buffer
        if sys.stdout.isatty():
            stdout = TerminalStream(stdout)
        output = nullcontext(stdout) if to_stdout else open_atomically(Path(file))
        try:
            with output as stream, consistent_snapshot():
                # Closing the generator removes the progress bar before a message is printed.
                with closing(self.track_progress(stream_pets(pets))) as rows:
                    write_pets(rows, stream, file_format, for_spreadsheets=options["for_spreadsheets"])
                stream.flush()
        except OSError as error:
            if to_stdout:
                discard_output()
            name = "standard output" if to_stdout else escape_nonprintable(file)
            raise CommandError(f"Can't write {name}: {error.strerror}.") from None
        result = {"file": file, "format": file_format, "pets": self.exported_count}
        message = f"Done. Exported {self.exported_count:,} pets."
        messages = self.stderr if to_stdout else self.stdout  # Keep the message out of the export.
        messages.write(json.dumps(result) if self.prints_json else message, lambda text: text)

    def track_progress(self, rows: Iterator[ExportedPet]) -> Generator[ExportedPet, None, None]:
        with self.progress_bar("Writing") as bar:
            for row in rows:
                yield row
                self.exported_count += 1
                bar.update()


def filter_pets(status: str | None, category_name: str | None) -> PetQuerySet:
    """Raise CommandError for an unknown category."""
    pets = Pet.objects.all()
    if status is not None:
        pets = pets.filter(status=status)
    if category_name is not None:
        category = find_by_name(Category.objects.all(), category_name)
        if category is None:
            raise CommandError(f"No category has the name {category_name!r}.")
        pets = pets.filter(category=category)
    return pets
