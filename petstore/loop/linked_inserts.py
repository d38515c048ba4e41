"""Inserts of a row and of others that name its key, as one statement.

One statement is committed together with the inserts of other requests, as a single row is; a transaction of
several needs a connection to itself, and some turns of the loop.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
from django.db import IntegrityError, models, router
from django.db.models.expressions import Combinable

from petstore.loop.compiled_writes import atomic, check_atomic, compile_insert, insert
from petstore.loop.libpq import Statement, compiled
from petstore.loop.waiting import on_loop
from petstore.loop.writers import writers

# Stands for the key in a field of numbers, and in what becomes JSON, which never has this byte itself.
KEY: Any = orjson.Fragment(b"\0")

# A row's model, its fields with a text around the key, and those that are the key.
Form = tuple[type[models.Model], tuple[str, ...], tuple[str, ...]]


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
    first = compile_insert(type(new), alias)
    values = first.prepare([field.pre_save(new, True) for field in first.fields])
    forms: list[Form] = []
    for other in others:
        around: list[str] = []
        keys: list[str] = []
        for field in compile_insert(type(other), alias).fields:
            value = field.pre_save(other, True)
            if value is KEY:
                keys.append(field.name)
            elif isinstance(value, AroundKey):
                around.append(field.name)
                values += [value.before, value.after]
            else:
                values.append(field.get_db_prep_save(value, first.dialect))
        forms.append((type(other), tuple(around), tuple(keys)))
    return compile_insert_with(type(new), tuple(forms), alias), values


@cache
def compile_insert_with(model: type[models.Model], others: tuple[Form, ...], alias: str) -> Statement:
    """Compile the insert of a row and those others, which returns the first one's key."""
    first = compile_insert(model, alias)
    quoted = first.dialect.ops.quote_name
    parts = [f"new_row (key) AS ({first.statement.django})"]
    for number, (other, around, keys) in enumerate(others, 1):
        fields = compile_insert(other, alias).fields
        columns = ", ".join(quoted(field.column or "") for field in fields)
        values = ", ".join(expression(field, around, keys) for field in fields)
        into = f"INSERT INTO {quoted(other._meta.db_table)} ({columns})"
        parts.append(f"other_{number} AS ({into} SELECT {values} FROM new_row)")  # noqa: S608  Only constants.
    return compiled(f"WITH {', '.join(parts)} SELECT key FROM new_row")  # noqa: S608


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
