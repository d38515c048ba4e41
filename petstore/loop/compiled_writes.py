"""Writes whose SQL is compiled once, as that of reads.py: building it anew took a third of a create.

On the event loop they go through its own connections, elsewhere through Django's. Functions under `atomic`
that write with nothing else can therefore run in both places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, wraps
from itertools import count
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections, models, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL
from django.db.models.sql import InsertQuery, UpdateQuery

from petstore.loop import postgresql
from petstore.loop.waiting import on_loop
from petstore.loop.writers import writers

P = ParamSpec("P")
Result = TypeVar("Result")
Model = TypeVar("Model", bound=models.Model)
Fields = Sequence["models.Field[Any, Any]"]

NUMBERS = count(1)


class Statement(NamedTuple):
    """A compiled statement, with a parameter for each of the fields."""

    sql: str
    on_loop: postgresql.Statement
    fields: Fields
    dialect: BaseDatabaseWrapper  # Never connects: on the event loop there is no thread to own it.

    def prepare(self, values: Sequence[Any]) -> list[Any]:
        """Return values of the fields as the database takes them."""
        pairs = zip(self.fields, values, strict=True)
        return [field.get_db_prep_save(value, self.dialect) for field, value in pairs]


class OwnSql:
    """SQL that Django can't say, with parameters as psycopg names them: %(name)s. It returns one row."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
        numbered = text
        for number, name in enumerate(self._names, 1):
            numbered = numbered.replace(f"%({name})s", f"${number}")
        self._on_loop = postgresql.Statement(next_name(), numbered.encode())

    def row(self, **parameters: int) -> tuple[Any, ...]:
        """Run, in a transaction of its own where none is open. Raises what Django raises for a query."""
        if on_loop():
            values = [parameters[name] for name in self._names]
            (row,) = writers(DEFAULT_DB_ALIAS).rows(self._on_loop, values)
            return row
        with connection.cursor() as cursor:
            cursor.execute(self._text, parameters)
            found: tuple[Any, ...] = cursor.fetchone()
            return found


def atomic(function: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate what is one transaction, or part of the caller's: an exception undoes all of that.

    Instances are not undone: after an exception of the database, read them anew.

    On the event loop the function must use the database by `insert`, `update` and `refresh` alone.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        if not on_loop():
            with transaction.atomic():
                return function(*args, **kwargs)
        with writers(DEFAULT_DB_ALIAS).transaction():
            return function(*args, **kwargs)

    return wrapper


def insert(new: Model, *, wait: bool = True) -> Model:
    """Write a new row, in a transaction of its own where none is open; sets its primary key.

    Like `new.save(force_insert=True)`, without its signals. Raises what Django raises for a query. Under
    `atomic`, `wait=False` saves time: the key may not be known, and what is raised is raised later.
    """
    alias = router.db_for_write(type(new))
    statement = compile_insert(type(new), alias)
    values = statement.prepare([field.pre_save(new, True) for field in statement.fields])
    if on_loop() and not wait:
        writers(alias).send(statement.on_loop, values)
    elif on_loop():
        ((new.pk,),) = writers(alias).rows(statement.on_loop, values)
    else:
        with connections[alias].cursor() as cursor:
            cursor.execute(statement.sql, values)
            (new.pk,) = cursor.fetchone()
    new._state.adding, new._state.db = False, alias
    return new


def update(model: type[models.Model], where: dict[str, Any], *, wait: bool = True, **values: Any) -> int:
    """Change the rows whose fields have the values of `where`; return how many there are.

    Like `filter(**where).update(**values)`. Raises what Django raises for a query. Under `atomic`,
    `wait=False` saves time: the number may be 0, and what is raised is raised later.
    """
    if not on_loop():
        return model._base_manager.filter(**where).update(**values)
    alias = router.db_for_write(model)
    conditions = dict(sorted(where.items()))  # As Django sorts them.
    statement = compile_update(model, alias, tuple(conditions), tuple(values))
    given = statement.prepare([*values.values(), *conditions.values()])
    if wait:
        return len(writers(alias).rows(statement.on_loop, given))
    writers(alias).send(statement.on_loop, given)
    return 0


def refresh(known: models.Model, *, lock: bool = False) -> None:
    """Read all fields of a row anew; `lock`: and keep others from it until the transaction ends.

    Like `known.refresh_from_db()`. Raises DoesNotExist, and what Django raises for a query.
    """
    model: Any = type(known)
    if not on_loop():
        rows_of = model._base_manager.select_for_update() if lock else model._base_manager.all()
        known.refresh_from_db(from_queryset=rows_of)
        return
    alias = router.db_for_write(model)
    statement = compile_refresh(model, alias, lock)
    rows = writers(alias).rows(statement.on_loop, statement.prepare([known.pk]))
    if not rows:
        raise model.DoesNotExist
    for field, value in zip(model._meta.concrete_fields, rows[0], strict=True):
        setattr(known, field.attname, value)


@cache
def compile_insert(model: type[models.Model], alias: str) -> Statement:
    """Compile the insert of all fields but the primary key, which the database assigns and returns."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    dialect = connections.create_connection(alias)
    query = InsertQuery(model)
    query.insert_values(fields, [model()])
    compiler = query.get_compiler(connection=dialect)
    compiler.returning_fields = [model._meta.pk]
    ((sql, _),) = compiler.as_sql()
    return statement_of(sql, fields, dialect)


@cache
def compile_update(
    model: type[models.Model], alias: str, where: tuple[str, ...], values: tuple[str, ...]
) -> Statement:
    """Compile an update, which returns a row for each that it changes."""
    dialect = connections.create_connection(alias)
    query: Any = model._base_manager.filter(**marks(where)).query.chain(UpdateQuery)
    query.add_update_values(marks(values))
    sql, names = query.get_compiler(connection=dialect).as_sql()
    columns = {field.name: field for field in model._meta.concrete_fields} | {"pk": model._meta.pk}
    fields = [columns[name] for name in names]
    return statement_of(f"{sql} RETURNING 1", fields, dialect)


@cache
def compile_refresh(model: type[models.Model], alias: str, lock: bool) -> Statement:
    """Compile the read of a row, with all fields, by its primary key."""
    dialect = connections.create_connection(alias)
    query = model._base_manager.filter(**marks(["pk"])).query
    sql, _ = query.get_compiler(connection=dialect).as_sql()
    locking = f" {dialect.ops.for_update_sql()}" if lock else ""
    return statement_of(f"{sql}{locking}", [model._meta.pk], dialect)


def marks(names: Sequence[str]) -> dict[str, RawSQL]:
    """Return a placeholder for each field: compiled, the field's name is its parameter."""
    return {name: RawSQL("%s", [name]) for name in names}


def statement_of(sql: str, fields: Fields, dialect: BaseDatabaseWrapper) -> Statement:
    """Return a compiled statement with a name of its own."""
    return Statement(sql, postgresql.Statement(next_name(), postgresql.numbered(sql)), fields, dialect)


def next_name() -> bytes:
    """Return the name of a prepared statement that no other has."""
    return f"write_{next(NUMBERS)}".encode()
