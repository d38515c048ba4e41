"""Writes whose SQL is compiled once: building it anew took a third of a create.

On the event loop they go through its own connections, elsewhere through Django's. Their rules are in the
docstring of petstore.event_loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL
from django.db.models.sql import InsertQuery, UpdateQuery
from django.db.transaction import TransactionManagementError

from petstore.event_loop.connection_pool import writers
from petstore.event_loop.greenlets import on_loop, this_turn
from petstore.event_loop.libpq import Statement, compiled, named
from petstore.event_loop.pg_connection import Rows

P = ParamSpec("P")
Result = TypeVar("Result")
Model = TypeVar("Model", bound=models.Model)

MISUSE = "Under `atomic` only the verbs of petstore.event_loop use the database: see there."
NEEDS_ATOMIC = "`wait=False` and `lock=True` are for use under `atomic`: see petstore.event_loop."
SAVEPOINTS = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")  # Of an `atomic` under another.

# What these fields' values are, as any database takes them; a subclass may do something else with them. To
# ask each field for its value takes five times as long.
PLAIN: dict[type, type] = {
    models.CharField: str,
    models.TextField: str,
    models.SmallIntegerField: int,
    models.BigIntegerField: int,
    models.ForeignKey: int,
}


class CompiledWrite(NamedTuple):
    """A compiled statement, with a parameter for each of the fields."""

    statement: Statement
    fields: Sequence[models.Field[Any, Any]]
    dialect: BaseDatabaseWrapper  # Never connects: on the event loop there is no thread to own it.

    def prepare(self, values: Iterable[Any]) -> list[Any]:
        """Return values of the fields as the database takes them."""
        return [
            value if type(value) is PLAIN.get(type(field)) else field.get_db_prep_save(value, self.dialect)
            for field, value in zip(self.fields, values, strict=True)
        ]

    def run(self, values: Iterable[Any], *, wait: bool = True) -> Rows:
        """Run it with values of the fields, and return its rows; none without `wait`."""
        prepared = self.prepare(values)
        return run(self.statement, prepared, prepared, wait=wait)


class OwnSql:
    """SQL that Django can't say, with parameters as psycopg names them: %(name)s. It returns one row."""

    def __init__(self, text: str) -> None:
        self._statement, self._names = named(text)

    def row(self, *, wait: bool = True, **parameters: int) -> tuple[Any, ...]:
        """Run, in a transaction of its own where none is open. Raises what Django raises for a query.

        Under `atomic`, `wait=False` saves time: no row is returned, and what is raised is raised later.
        """
        values = [parameters[name] for name in self._names]
        rows = run(self._statement, values, parameters, wait=wait)
        return rows[0] if rows else ()


def run(statement: Statement, values: Sequence[Any], for_django: Any, *, wait: bool) -> Rows:
    """Return the rows of a statement, on the loop without `wait` none; Django has its own parameters."""
    if not wait:
        check_atomic()
    if not on_loop():
        with verb(), connection.cursor() as cursor:
            cursor.execute(statement.django, for_django)
            found: Rows = cursor.fetchall()
            return found
    if wait:
        return writers(DEFAULT_DB_ALIAS).rows(statement, values)
    writers(DEFAULT_DB_ALIAS).send(statement, values)
    return []


def atomic(function: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate what is one transaction, or part of the caller's: an exception undoes all of that.

    Instances are not undone: after an exception of the database, read them anew.

    Inside, a query by anything but the verbs of petstore.event_loop raises an error: on the event loop
    Django's SynchronousOnlyOperation, elsewhere TransactionManagementError.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        if not on_loop():
            with transaction.atomic(), connection.execute_wrapper(verbs_only):
                return function(*args, **kwargs)
        with writers(DEFAULT_DB_ALIAS).transaction():
            return function(*args, **kwargs)

    return wrapper


at_work = threading.local()  # `verb`: whether one of the verbs uses Django's connection, in this thread.


@contextmanager
def verb() -> Iterator[None]:
    """Let queries of this thread through to the database, also under `atomic`."""
    at_work.verb = True
    try:
        yield
    finally:
        at_work.verb = False


def verbs_only(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    """Refuse every query but the verbs': see "Database instrumentation" in Django's documentation."""
    if not getattr(at_work, "verb", False) and not sql.startswith(SAVEPOINTS):
        raise TransactionManagementError(MISUSE)
    return execute(sql, *rest)


def check_atomic() -> None:
    """Raise TransactionManagementError unless a transaction is open."""
    if not (this_turn().transaction if on_loop() else connection.in_atomic_block):
        raise TransactionManagementError(NEEDS_ATOMIC)


def insert(new: Model, *, wait: bool = True) -> Model:
    """Write a new row, in a transaction of its own where none is open; sets its primary key.

    Like `new.save(force_insert=True)`, without its signals. Raises what Django raises for a query. Under
    `atomic`, `wait=False` saves time: the key may not be known, and what is raised is raised later.
    """
    write = compile_insert(type(new))
    rows = write.run((field.pre_save(new, add=True) for field in write.fields), wait=wait)
    if rows:
        ((new.pk,),) = rows
    new._state.adding, new._state.db = False, DEFAULT_DB_ALIAS
    return new


def update(model: type[models.Model], where: dict[str, Any], *, wait: bool = True, **values: Any) -> int:
    """Change the rows whose fields have the values of `where`; return how many there are.

    Like `filter(**where).update(**values)`. Raises what Django raises for a query. Under `atomic`,
    `wait=False` saves time: the number may be 0, and what is raised is raised later.
    """
    write, given = compiled_update(model, where, values)
    return len(write.run(given, wait=wait))


def update_one(model: type[Model], where: dict[str, Any], **values: Any) -> Model | None:
    """Change the row whose fields have the values of `where`, one of which is unique.

    Returns the row as it is now, or None if there is none. Raises what Django raises for a query.
    """
    write, given = compiled_update(model, where, values, returning=True)
    if not on_loop():
        with verb():
            rows_of = model._base_manager.raw(write.statement.django, write.prepare(given))
            return next(iter(list(rows_of)), None)
    rows = write.run(given)
    names = [field.attname for field in model._meta.concrete_fields]
    return model.from_db(DEFAULT_DB_ALIAS, names, rows[0]) if rows else None


def refresh(known: models.Model, *, lock: bool = False) -> None:
    """Read all fields of a row anew; `lock`: and keep others from it until the transaction ends.

    Like `known.refresh_from_db()`. Raises DoesNotExist, and what Django raises for a query.
    """
    model: Any = type(known)
    if lock:
        check_atomic()
    if not on_loop():
        rows_of = model._base_manager.select_for_update() if lock else model._base_manager.all()
        with verb():
            known.refresh_from_db(from_queryset=rows_of)
        return
    rows = compile_refresh(model, lock).run([known.pk])
    if not rows:
        raise model.DoesNotExist
    for field, value in zip(model._meta.concrete_fields, rows[0], strict=True):
        setattr(known, field.attname, value)


@cache
def compile_insert(model: type[models.Model]) -> CompiledWrite:
    """Compile the insert of all fields but the primary key, which the database assigns and returns."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    dialect = connections.create_connection(DEFAULT_DB_ALIAS)
    query = InsertQuery(model)
    query.insert_values(fields, [model()])
    compiler = query.get_compiler(connection=dialect)
    compiler.returning_fields = [model._meta.pk]
    ((sql, _),) = compiler.as_sql()
    return CompiledWrite(compiled(sql), fields, dialect)


def compiled_update(
    model: type[models.Model], where: dict[str, Any], values: dict[str, Any], *, returning: bool = False
) -> tuple[CompiledWrite, list[Any]]:
    """Return the statement of an update, and its values."""
    conditions = sorted(where.items())  # As Django sorts them.
    nulls = tuple((name, value is None) for name, value in conditions)
    write = compile_update(model, nulls, tuple(values), returning)
    return write, [*values.values(), *(value for _, value in conditions if value is not None)]


@cache
def compile_update(
    model: type[models.Model], nulls: tuple[tuple[str, bool], ...], values: tuple[str, ...], returning: bool
) -> CompiledWrite:
    """Compile an update, which returns a row for each that it changes: all fields, or a number.

    `nulls`: of each field of the conditions, whether it is NULL.
    """
    dialect = connections.create_connection(DEFAULT_DB_ALIAS)
    conditions = {name: None if is_null else RawSQL("%s", [name]) for name, is_null in nulls}
    query: Any = model._base_manager.filter(**conditions).query.chain(UpdateQuery)
    query.add_update_values(marks(values))
    sql, names = query.get_compiler(connection=dialect).as_sql()
    columns = {field.name: field for field in model._meta.concrete_fields} | {"pk": model._meta.pk}
    told = [dialect.ops.quote_name(field.column or "") for field in model._meta.concrete_fields]
    text = f"{sql} RETURNING {', '.join(told) if returning else 1}"
    return CompiledWrite(compiled(text), [columns[name] for name in names], dialect)


@cache
def compile_refresh(model: type[models.Model], lock: bool) -> CompiledWrite:
    """Compile the read of a row, with all fields, by its primary key."""
    dialect = connections.create_connection(DEFAULT_DB_ALIAS)
    query = model._base_manager.filter(**marks(["pk"])).query
    sql, _ = query.get_compiler(connection=dialect).as_sql()
    locking = f" {dialect.ops.for_update_sql()}" if lock else ""
    return CompiledWrite(compiled(f"{sql}{locking}"), [model._meta.pk], dialect)


def marks(names: Sequence[str]) -> dict[str, RawSQL]:
    """Return a placeholder for each field: compiled, the field's name is its parameter."""
    return {name: RawSQL("%s", [name]) for name in names}
