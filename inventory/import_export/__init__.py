"""Pets in files, and between files and the database. Checking and reading are pure."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from django.db import transaction
from django.db.models import F

from inventory.import_export.checking import BATCH, Checker, Report, Row, good_rows
from inventory.import_export.reading import READERS, lines
from inventory.import_export.writing import Exported
from inventory.members import PET
from inventory.models import Category, Pet, PetQuerySet
from petstore.db.identity import is_postgresql

FORMATS = ("csv", "jsonl")
STREAM = "-"


def format_of(file: str, chosen: str | None) -> str:
    """Return the format that was chosen, or else the one of the file's suffix; a stream is CSV.

    Raises ValueError with a sentence if the suffix says nothing.
    """
    suffix = "csv" if file == STREAM else Path(file).suffix.lower().removeprefix(".")
    if not chosen and suffix not in FORMATS:
        endings = " nor in ".join(f".{one}" for one in FORMATS)
        raise ValueError(f"The file's name ends neither in {endings}. Say what it is, with --format.")
    return chosen or suffix


def category_ids() -> dict[str, int]:
    """Return the id of each category by its name."""
    return dict(Category.objects.order_by("id").values_list("name", "id"))


def checked(
    stream: BinaryIO, file_format: str, report: Report, most: int | None = None
) -> Iterator[list[Row]]:
    """Yield the good rows of a file in batches; read `most` records of it, if that is said."""
    records = READERS[file_format](lines(stream), report)
    return good_rows(islice(records, most), Checker(category_ids()), report)


def add(batches: Iterable[list[Row]]) -> None:
    """Add the pets of all batches, or none of them."""
    Pet.objects.add_all((Pet(**row) for row in rows) for rows in batches)


def snapshot() -> AbstractContextManager[Any]:
    """Return what an export runs in, so that it streams and sees one moment only.

    PostgreSQL streams inside a transaction, and outside of one it would first make a copy of it all. In
    SQLite a query sees one moment by itself, and a transaction of ours would lock out writers.
    """
    return transaction.atomic() if is_postgresql() else nullcontext()


def export(pets: PetQuerySet) -> Iterator[Exported]:
    """Yield the pets by ascending id. One query, so one moment; call it within `snapshot`."""
    relations = {member.column: F(f"{member.column}__name") for member in PET if member.column}
    shown: Any = pets.order_by("id").as_json().values(*PET.names, **relations)
    rows: Iterator[Exported] = shown.iterator(chunk_size=BATCH)
    return rows
