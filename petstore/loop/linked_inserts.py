"""Inserts of a row and of others that name its key, and moves of rows with them, as one statement.

One statement is committed together with the inserts of other requests, as a single row is; a transaction of
several needs a connection to itself, and some turns of the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import orjson
from django.db import IntegrityError, models, router
from django.db.models.expressions import Combinable

from petstore.loop.compiled_writes import atomic, check_atomic, compile_insert, insert
from petstore.loop.libpq import Statement, compiled
from petstore.loop.waiting import on_loop, this_turn
from petstore.loop.writers import writers

# Stands for the key in a field of numbers, and in what becomes JSON, which never has this byte itself.
KEY: Any = orjson.Fragment(b"\0")

# A row's model, its fields with a text around the key, and those that are the key.
Form = tuple[type[models.Model], tuple[str, ...], tuple[str, ...]]
# A row's model, its fields that must be as they were read, and those that change.
MoveForm = tuple[type[models.Model], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class AroundKey(Combinable):
    """A text with the key of a row that is yet to be inserted between these two.

    A field of texts takes it, and one of bytes.
    """

    before: str
    after: str = ""

    @classmethod
    def json(cls, data: Any) -> AroundKey:
        """Make the JSON of data that has KEY in one place."""
        before, after = orjson.dumps(data, option=orjson.OPT_UTC_Z).decode().split("\0")
        return cls(before, after)

    def text(self, key: int) -> str:
        return f"{self.before}{key}{self.after}"


class Move(NamedTuple):
    """A row that was read, by its key; how these fields were then, and how others change."""

    model: type[models.Model]
    key: int
    read: dict[str, Any]
    to: dict[str, Any]

    def form(self) -> MoveForm:
        return self.model, tuple(self.read), tuple(self.to)


def insert_with(new: models.Model, *others: models.Model, wait: bool = True) -> None:
    """Write a new row and others, whose fields may be KEY or AroundKey of it: all of them, or none.

    Sets the first one's primary key alone. In a transaction of its own where none is open. Raises what
    Django raises for a query. Under `atomic`, `wait=False` saves time: no key is set, and what is raised is
    raised later.
    """
    alias = router.db_for_write(type(new))
    if not wait:
        check_atomic(alias)
    if not on_loop():
        insert_one_by_one(new, others)
        return
    if not wait:
        writers(alias).send(*prepared(new, others, alias))
        return
    ((key,),) = writers(alias).insert(*prepared(new, others, alias))
    written(new, key, alias)


def try_insert_with(new: models.Model, *others: models.Model) -> bool:
    """Do as `insert_with` where that is cheap, not in a transaction. False: nothing was done.

    Either rows contradict those that are there, or somebody else's row has to be waited for, or the insert
    can't be committed together with others. Raises what else Django raises for a query.
    """
    if not on_loop():
        return False
    alias = router.db_for_write(type(new))
    try:
        rows = writers(alias).insert_together(*prepared(new, others, alias))
    except IntegrityError:
        return False
    if rows is None:
        return False
    written(new, rows[0][0], alias)
    return True


def may_share_commits() -> bool:
    """Tell whether `try_move_with` may do anything: it does nothing off the loop or in a transaction."""
    return on_loop() and this_turn().transaction is None


def try_move_with(moves: Sequence[Move], new: models.Model, *others: models.Model) -> bool:
    """Change rows of several models and insert others, where that is cheap and all are as they were read.

    The rows are locked in the order of the moves. False: nothing was done, also where rows contradict those
    that are there, or have to be waited for. Raises what else Django raises for a query.
    """
    if not may_share_commits():
        return False
    alias = router.db_for_write(type(new))
    forms, values = forms_and_values(new, others, alias)
    statement = compile_move_with(tuple(move.form() for move in moves), type(new), forms, alias)
    given: list[Any] = []
    for move in moves:
        given += prepared_fields(move.model, {"pk": move.key} | move.read, alias)
    for move in moves:
        given += prepared_fields(move.model, move.to | {"pk": move.key}, alias)
    try:
        rows = writers(alias).insert_together(statement, [*given, *values])
    except IntegrityError:
        return False
    if not rows:
        return False
    written(new, rows[0][0], alias)
    return True


@atomic
def insert_one_by_one(new: models.Model, others: tuple[models.Model, ...]) -> None:
    """Write the rows as so many statements."""
    insert(new)
    for other in others:
        complete = copy(other)
        for field in other._meta.concrete_fields:
            value = getattr(other, field.attname)
            if value is KEY:
                setattr(complete, field.attname, new.pk)
            elif isinstance(value, AroundKey):
                text = value.text(new.pk)
                is_binary = isinstance(field, models.BinaryField)
                setattr(complete, field.attname, text.encode() if is_binary else text)
        insert(complete)


def prepared(
    new: models.Model, others: tuple[models.Model, ...], alias: str
) -> tuple[Statement, list[Any]]:
    """Return the statement for such rows, and its values."""
    forms, values = forms_and_values(new, others, alias)
    return compile_insert_with(type(new), forms, alias), values


def forms_and_values(
    new: models.Model, others: tuple[models.Model, ...], alias: str
) -> tuple[tuple[Form, ...], list[Any]]:
    """Return what the others are, and the values of all rows in the order of the statement."""
    values = compile_insert(type(new), alias).values(new)
    forms: list[Form] = []
    for other in others:
        around: list[str] = []
        keys: list[str] = []
        _, slots, dialect = compile_insert(type(other), alias)
        for field, read, plain in slots:
            value = read(other)
            if type(value) is plain:
                values.append(value)
            elif value is KEY:
                keys.append(field.name)
            elif isinstance(value, AroundKey):
                around.append(field.name)
                values += [value.before, value.after]
            else:
                values.append(field.get_db_prep_save(value, dialect))
        forms.append((type(other), tuple(around), tuple(keys)))
    return tuple(forms), values


def prepared_fields(model: type[models.Model], values: dict[str, Any], alias: str) -> list[Any]:
    dialect = compile_insert(model, alias).dialect
    return [field_of(model, name).get_db_prep_save(value, dialect) for name, value in values.items()]


def field_of(model: type[models.Model], name: str) -> models.Field[Any, Any]:
    field: Any = model._meta.pk if name == "pk" else model._meta.get_field(name)
    assert isinstance(field, models.Field)
    return field


@cache
def compile_insert_with(model: type[models.Model], others: tuple[Form, ...], alias: str) -> Statement:
    """Compile the insert of a row and those others, which returns the first one's key."""
    parts = [f"new_row (key) AS ({compile_insert(model, alias).statement.django})"]
    parts += inserts_of(others, alias)
    return compiled(f"WITH {', '.join(parts)} SELECT key FROM new_row")  # noqa: S608  Only constants.


@cache
def compile_move_with(
    moves: tuple[MoveForm, ...], model: type[models.Model], others: tuple[Form, ...], alias: str
) -> Statement:
    """Compile the moves and the insert of the rows, which returns the first one's key, or no row."""
    quoted = compile_insert(model, alias).dialect.ops.quote_name

    def column(of: type[models.Model], name: str) -> str:
        return f"{quoted(of._meta.db_table)}.{quoted(field_of(of, name).column or '')}"

    tables = ", ".join(quoted(moved._meta.db_table) for moved, _, _ in moves)
    as_read = [f"{column(moved, name)} = %s" for moved, read, _ in moves for name in ("pk", *read)]
    parts = [f"held AS (SELECT 1 FROM {tables} WHERE {' AND '.join(as_read)} FOR UPDATE)"]  # noqa: S608
    for number, (moved, _, to) in enumerate(moves, 1):
        changes = ", ".join(f"{quoted(field_of(moved, name).column or '')} = %s" for name in to)
        held = f"{column(moved, 'pk')} = %s AND EXISTS (SELECT FROM held)"
        parts.append(f"move_{number} AS (UPDATE {quoted(moved._meta.db_table)} SET {changes} WHERE {held})")  # noqa: S608
    key = quoted(field_of(model, "pk").column or "")
    parts.append(f"new_row (key) AS ({insert_from('held', (model, (), ()), alias)} RETURNING {key})")
    parts += inserts_of(others, alias)
    return compiled(f"WITH {', '.join(parts)} SELECT key FROM new_row")  # noqa: S608


def inserts_of(others: tuple[Form, ...], alias: str) -> list[str]:
    """Return the SQL of the inserts of rows that may name the key of another."""
    inserts = [insert_from("new_row", form, alias) for form in others]
    return [f"other_{number} AS ({sql})" for number, sql in enumerate(inserts, 1)]


def insert_from(source: str, form: Form, alias: str) -> str:
    """Return the SQL that inserts a row of this form for each of the source."""
    model, around, keys = form
    write = compile_insert(model, alias)
    quoted = write.dialect.ops.quote_name
    columns = ", ".join(quoted(slot.field.column or "") for slot in write.slots)
    values = ", ".join(expression(slot.field, around, keys) for slot in write.slots)
    return f"INSERT INTO {quoted(model._meta.db_table)} ({columns}) SELECT {values} FROM {source}"  # noqa: S608


def expression(field: models.Field[Any, Any], around: Collection[str], keys: Collection[str]) -> str:
    """Return the SQL of a value, of one around the key, or of the key."""
    if field.name in keys:
        return "new_row.key"
    if field.name not in around:
        return "%s"
    text = "%s || new_row.key || %s"
    return f"convert_to({text}, 'UTF8')" if isinstance(field, models.BinaryField) else text


def written(new: models.Model, key: int, alias: str) -> None:
    """Note on a row that it is in the database."""
    new.pk = key
    new._state.adding, new._state.db = False, alias
