"""Animals from a file into the database, and out of it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any

import orjson
from django.db import connection, models, transaction
from django.db.models import NOT_PROVIDED

from inventory.import_export.checking import BATCH, Row
from inventory.models import Category, Pet, PetQuerySet

# Id, name, category id, category name, status.
Exported = tuple[int, str, int, str, str]


class Spool:
    """Checked rows on disk until all are checked, so that the database is not kept busy meanwhile.

    SQLite has one writer: a slow file would make every request wait.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def put(self, rows: list[Row]) -> None:
        """Keep the rows."""
        self.file.write(orjson.dumps(rows) + b"\n")

    def batches(self) -> Iterator[list[Row]]:
        """Yield what was put, in that order."""
        self.file.seek(0)
        for line in self.file:
            yield orjson.loads(line)


def category_ids() -> dict[str, int]:
    """Return the id of each category by its name."""
    return dict(Category.objects.values_list("name", "id"))


class Columns:
    """The columns of a new animal: those of a Row, then whatever else the model has a value for.

    Taken from the model, so that a column that is added to it needs no change here. The database itself
    fills the id, generated columns and those with a default in the database.
    """

    def __init__(self) -> None:
        fields = {field.name: field for field in Pet._meta.local_concrete_fields}
        given = [fields.pop(name) for name in ("name", "category", "status")]
        others = [
            field
            for field in fields.values()
            if not field.generated
            and not isinstance(field, models.AutoField | models.BigAutoField | models.SmallAutoField)
            and field.db_default is NOT_PROVIDED
        ]
        # A default that is made anew for each animal, such as a UUID, comes after those that are the same.
        self.each = [field for field in others if field.has_default() and callable(field.default)]
        self.once = [field for field in others if field not in self.each]
        quote = connection.ops.quote_name
        self.table = quote(Pet._meta.db_table)
        self.names = [quote(str(field.column)) for field in (*given, *self.once, *self.each)]

    def complete(self) -> Callable[[Row], tuple[Any, ...]]:
        """Return what makes the values of all columns out of a Row."""
        constant = tuple(value(field) for field in self.once)
        if not self.each:
            return lambda row: (*row, *constant)
        return lambda row: (*row, *constant, *(value(field) for field in self.each))


def value(field: "models.Field[Any, Any]") -> Any:
    """Return what a new animal has in this field, as the database takes it; the time is now."""
    return field.get_db_prep_save(field.pre_save(Pet(), add=True), connection)


def add(batches: Iterable[list[Row]]) -> None:
    """Add the animals of all batches, or none of them."""
    columns = Columns()
    complete = columns.complete()
    into = f"{columns.table} ({', '.join(columns.names)})"
    # COPY's errors don't pass Django's cursor, so they are made Django's here.
    with transaction.atomic(), connection.cursor() as cursor, connection.wrap_database_errors:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {into} FROM STDIN") as copy:
                for batch in batches:
                    for row in batch:
                        copy.write_row(complete(row))
        else:
            places = ", ".join(["%s"] * len(columns.names))
            statement = f"INSERT INTO {into} VALUES ({places})"  # noqa: S608  Names come from the model.
            for batch in batches:
                cursor.executemany(statement, [complete(row) for row in batch])


def snapshot() -> AbstractContextManager[Any]:
    """Return what an export runs in, so that it streams and sees one moment only.

    PostgreSQL streams inside a transaction, and outside of one it would first make a copy of it all. In
    SQLite a query sees one moment by itself, and a transaction of ours would lock out writers.
    """
    return transaction.atomic() if connection.vendor == "postgresql" else nullcontext()


def export(pets: PetQuerySet) -> Iterator[Exported]:
    """Yield the animals by ascending id. One query, so one moment; call it within `snapshot`."""
    shown = pets.order_by("id").values_list("id", "name", "category_id", "category__name", "status")
    return shown.iterator(chunk_size=BATCH)
