"""Writers of CSV and JSON Lines, and atomic creation of files."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from inventory.import_export.validation import MAIN_COLUMNS
from petstore.backoffice.spreadsheets import write_csv

ExportedPet = dict[str, Any]  # The fields, and the name of the category.
# In CSV the category's name replaces its id, which other shops don't know; JSON Lines has both.
CSV_COLUMNS = ["id", *MAIN_COLUMNS]
JSON_COLUMNS = ["id", "name", "categoryId", "category", "status"]


def write_pets(
    pets: Iterable[ExportedPet], stream: BinaryIO, file_format: str, *, for_spreadsheets: bool
) -> None:
    """Write CSV (RFC 4180) or JSON Lines in UTF-8.

    `for_spreadsheets` applies to CSV only: it escapes formulas and adds a byte order mark.
    """
    if file_format == "jsonl":
        for pet in pets:
            line = {column: pet[column] for column in JSON_COLUMNS}
            stream.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    else:
        rows = ([pet[column] for column in CSV_COLUMNS] for pet in pets)
        write_csv(chain([CSV_COLUMNS], rows), stream, for_spreadsheets=for_spreadsheets)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that is created or replaced only once it is complete."""
    path = path.resolve()
    if path.exists() and not path.is_file():  # A pipe or a device; a directory raises OSError.
        with path.open("wb") as stream:
            yield stream
        return
    if path.exists():
        path.open("ab").close()  # Raises OSError for a read-only file, which replace() would overwrite.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with temporary.open("xb") as stream:
        try:
            yield stream
            stream.flush()
            if path.exists():
                shutil.copymode(path, temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
