"""Writing pets as CSV and JSON Lines, and a file that is whole or not there."""

import codecs
import csv
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from inventory.members import PET
from petstore.backoffice.spreadsheets import escape_formula

Exported = dict[str, Any]  # A pet's members, and the name of its category.
# The category's name goes with it; in CSV it takes the place of the id, which means nothing elsewhere.
CSV_COLUMNS = [member.columns[0] for member in PET]
JSON_COLUMNS = [name for member in PET for name in reversed(member.columns)]


def write(pets: Iterable[Exported], stream: BinaryIO, file_format: str, *, for_spreadsheets: bool) -> None:
    """Write CSV (RFC 4180) in UTF-8, or a Pet and the name of its category in each line.

    `for_spreadsheets` is for CSV alone.
    """
    if file_format == "jsonl":
        for pet in pets:
            line = {column: pet[column] for column in JSON_COLUMNS}
            stream.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        return
    rows: Iterable[list[Any]] = ([pet[column] for column in CSV_COLUMNS] for pet in pets)
    if for_spreadsheets:
        rows = ([escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    # Its line ending is CRLF: with LF alone it would leave a CR inside a name without quotes.
    writer = csv.writer(codecs.getwriter("utf-8-sig" if for_spreadsheets else "utf-8")(stream))
    writer.writerow(CSV_COLUMNS)
    writer.writerows(rows)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name, or replaces an older one, only once it is complete."""
    path = path.resolve()
    if path.exists() and not path.is_file():  # A pipe, or /dev/null; opening a folder fails.
        with path.open("wb") as stream:
            yield stream
        return
    if path.exists():
        path.open("ab").close()  # Fails where writing is forbidden; replacing it would not.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("xb") as stream:
        try:
            yield stream
            stream.flush()
            if path.exists():
                shutil.copymode(path, part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
