"""Import and export of pets as CSV and JSON Lines. Only this module uses the database."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F

from inventory.import_export.readers import READERS, read_lines
from inventory.import_export.validation import PetAttributes, Report, validate
from inventory.import_export.writers import ExportedPet
from inventory.models import Category, Pet, PetQuerySet
from petstore.db.identity import is_postgresql

FORMATS = ("csv", "jsonl")
BATCH_SIZE = 5_000
STREAM = "-"  # The file name that stands for standard input or output.


def detect_format(file: str, chosen_format: str | None) -> str:
    """Default to the format of the file's extension, or to CSV for a stream.

    Raises ValidationError for an unknown extension.
    """
    if chosen_format:
        return chosen_format
    if file == STREAM:
        return "csv"
    extension = Path(file).suffix.lower().removeprefix(".")
    if extension not in FORMATS:
        raise ValidationError("The file name ends in neither .csv nor .jsonl. Choose the format.")
    return extension


def category_ids_by_name() -> dict[str, int]:
    return dict(Category.objects.order_by("id").values_list("name", "id"))


def read_valid_pets(
    stream: BinaryIO, file_format: str, report: Report, max_records: int | None = None
) -> Iterator[PetAttributes]:
    """Yield the valid pets of a file, and add the invalid lines to the report."""
    records = READERS[file_format](read_lines(stream), report)
    return validate(islice(records, max_records), category_ids_by_name(), report)


def add_pets(pets: Iterable[PetAttributes]) -> None:
    """Add all pets, or none, with an event for each if they are at most MAX_EVENTS_PER_IMPORT."""
    Pet.objects.bulk_create_with_events(Pet(**attributes) for attributes in pets)


def consistent_snapshot() -> AbstractContextManager[Any]:
    """Let an export stream rows from one consistent snapshot.

    PostgreSQL's server-side cursors need a transaction. In SQLite a single query is consistent by itself,
    and a transaction would block writers.
    """
    return transaction.atomic() if is_postgresql() else nullcontext()


def stream_pets(pets: PetQuerySet) -> Iterator[ExportedPet]:
    """Yield the pets by ascending id, in one query. Requires `consistent_snapshot`."""
    values: Any = pets.order_by("id").as_json()
    values = values.values("id", "name", "categoryId", "status", category=F("category__name"))
    rows: Iterator[ExportedPet] = values.iterator(chunk_size=BATCH_SIZE)
    return rows
