"""Import and export of pets as CSV and JSON Lines. Only this module uses the database."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from django.db import transaction
from django.db.models import F

from inventory.import_export.checking import BATCH, Checker, Report, Row, valid_batches
from inventory.import_export.reading import READERS, lines
from inventory.import_export.writing import Exported
from inventory.members import PET
from inventory.models import Category, Pet, PetQuerySet
from petstore.db.identity import is_postgresql

FORMATS = ("csv", "jsonl")
STREAM = "-"


def detect_format(file: str, chosen: str | None) -> str:
    """Default to the format of the file's extension, or to CSV for a stream.

    Raises ValueError for an unknown extension.
    """
    suffix = "csv" if file == STREAM else Path(file).suffix.lower().removeprefix(".")
    if not chosen and suffix not in FORMATS:
        expected = " or ".join(f".{one}" for one in FORMATS)
        raise ValueError(f"The file name does not end in {expected}. Choose the format with --format.")
    return chosen or suffix


def category_ids() -> dict[str, int]:
    return dict(Category.objects.order_by("id").values_list("name", "id"))


def read_valid_batches(
    stream: BinaryIO, file_format: str, report: Report, max_records: int | None = None
) -> Iterator[list[Row]]:
    """Yield the valid rows of a file in batches; the rest goes into the report."""
    records = READERS[file_format](lines(stream), report)
    return valid_batches(islice(records, max_records), Checker(category_ids()), report)


def add(batches: Iterable[list[Row]]) -> None:
    """Add the pets of all batches, or none."""
    Pet.objects.add_all((Pet(**row) for row in rows) for rows in batches)


def snapshot() -> AbstractContextManager[Any]:
    """Context of an export: it streams, and reads one consistent snapshot.

    PostgreSQL's server-side cursors need a transaction. In SQLite a single query is consistent by itself,
    and a transaction would block writers.
    """
    return transaction.atomic() if is_postgresql() else nullcontext()


def export(pets: PetQuerySet) -> Iterator[Exported]:
    """Yield the pets by ascending id, in one query. Requires `snapshot`."""
    relations = {member.column: F(f"{member.column}__name") for member in PET if member.column}
    values: Any = pets.order_by("id").as_json().values(*PET.names, **relations)
    rows: Iterator[Exported] = values.iterator(chunk_size=BATCH)
    return rows
