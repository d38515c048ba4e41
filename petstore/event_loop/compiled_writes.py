"""Writes whose SQL is compiled only once, because building it for each request is slow.

On the event loop they use its connection pool, elsewhere Django's connection. The docstring of
petstore.event_loop explains when to use them.
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

from petstore.event_loop.connection_pool import get_write_pool
from petstore.event_loop.greenlets import current_task, is_on_loop
from petstore.event_loop.libpq import Statement, compile_named_parameters, compile_statement
from petstore.event_loop.pg_connection import Rows

P = ParamSpec("P")
Result = TypeVar("Result")
Model = TypeVar("Model", bound=models.Model)

MISUSE = "Only the functions of petstore.event_loop may use the database under `atomic`. See its docstring."
NEEDS_ATOMIC = "`wait=False` and `lock=True` require `atomic`. See petstore.event_loop."
SAVEPOINT_PREFIXES = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")  # Of nested `atomic`s.

# For these field classes, values of the given type need no `get_db_prep_save`, which is slow. Subclasses of
# the fields may need it.
NATIVE_TYPES: dict[type, type] = {
    models.CharField: str,
    models.TextField: str,
    models.SmallIntegerField: int,
    models.BigIntegerField: int,
    models.ForeignKey: int,
}


class CompiledWrite(NamedTuple):
    """A statement with one parameter for each of its fields."""

    statement: Statement
    fields: Sequence[models.Field[Any, Any]]

    def prepare(self, values: Iterable[Any]) -> list[Any]:
        return [
            value
            if type(value) is NATIVE_TYPES.get(type(field))
            else field.get_db_prep_save(value, get_dialect())
            for field, value in zip(self.fields, values, strict=True)
        ]

    def run(self, values: Iterable[Any], *, wait: bool = True) -> Rows:
        """Run the statement with values for its fields. Without `wait`, it may return no rows."""
        prepared = self.prepare(values)
        return run(self.statement, prepared, prepared, wait=wait)


@cache
def get_dialect() -> BaseDatabaseWrapper:
    """Return a wrapper that never connects, because no thread could own it on the event loop."""
    return connections.create_connection(DEFAULT_DB_ALIAS)


class RawStatement:
    """A raw SQL statement with %(name)s parameters that returns at most one row."""

    def __init__(self, sql: str) -> None:
        self._statement, self._names = compile_named_parameters(sql)

    def execute(self, *, wait: bool = True, **parameters: int) -> tuple[Any, ...]:
        """Run the statement in the open transaction or its own. Raises Django's database errors.

        Under `atomic`, `wait=False` saves a round trip. It may return no row. A later call raises errors.
        """
        values = [parameters[name] for name in self._names]
        rows = run(self._statement, values, parameters, wait=wait)
        return rows[0] if rows else ()


def run(statement: Statement, values: Sequence[Any], django_parameters: Any, *, wait: bool) -> Rows:
    if not wait:
        check_atomic()
    if not is_on_loop():
        with allow_queries(), connection.cursor() as cursor:
            cursor.execute(statement.django, django_parameters)
            rows: Rows = cursor.fetchall()
            return rows
    if wait:
        return get_write_pool(DEFAULT_DB_ALIAS).fetch_rows(statement, values)
    get_write_pool(DEFAULT_DB_ALIAS).send(statement, values)
    return []


def atomic(function: Callable[P, Result]) -> Callable[P, Result]:
    """Run the decorated function in a transaction, or as part of the caller's transaction.

    On the loop, an exception rolls back the whole transaction. Elsewhere, that of a nested function rolls
    back to a savepoint. Model instances are not restored.

    Queries that bypass the functions of this module raise SynchronousOnlyOperation on the event loop, and
    TransactionManagementError elsewhere. A Read raises the latter in both cases.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        if not is_on_loop():
            with transaction.atomic(), connection.execute_wrapper(reject_query):
                return function(*args, **kwargs)
        with get_write_pool(DEFAULT_DB_ALIAS).transaction():
            return function(*args, **kwargs)

    return wrapper


thread_state = threading.local()


@contextmanager
def allow_queries() -> Iterator[None]:
    """Allow queries on Django's connection under `atomic`, in this thread."""
    thread_state.may_query = True
    try:
        yield
    finally:
        thread_state.may_query = False


def reject_query(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
    """Reject queries outside `allow_queries`. See "Database instrumentation" in Django's documentation."""
    if not getattr(thread_state, "may_query", False) and not sql.startswith(SAVEPOINT_PREFIXES):
        raise TransactionManagementError(MISUSE)
    return execute(sql, *arguments)


def check_atomic() -> None:
    """Raise TransactionManagementError unless a transaction is open."""
    if not (current_task().transaction if is_on_loop() else connection.in_atomic_block):
        raise TransactionManagementError(NEEDS_ATOMIC)


def insert(instance: Model, *, wait: bool = True) -> Model:
    """Insert a row in the open transaction or its own, and set the instance's primary key.

    Like `instance.save(force_insert=True)`, but without signals. Raises Django's database errors. Under
    `atomic`, `wait=False` saves a round trip. It may leave the primary key unset, and a later call raises
    errors.
    """
    write = compile_insert(type(instance))
    rows = write.run((field.pre_save(instance, add=True) for field in write.fields), wait=wait)
    if rows:
        ((instance.pk,),) = rows
    instance._state.adding, instance._state.db = False, DEFAULT_DB_ALIAS
    return instance


def update(model: type[models.Model], where: dict[str, Any], *, wait: bool = True, **values: Any) -> int:
    """Update the rows that match `where`, and return their number.

    Like `filter(**where).update(**values)`. Raises Django's database errors. Under `atomic`, `wait=False`
    saves a round trip. It may return 0, and a later call raises errors.
    """
    write, parameters = prepare_update(model, where, values)
    return len(write.run(parameters, wait=wait))


def update_one(model: type[Model], where: dict[str, Any], **values: Any) -> Model | None:
    """Update the row that matches `where`, which must include a unique field.

    Returns the updated row, or None if no row matches. Raises Django's database errors.
    """
    write, parameters = prepare_update(model, where, values, returning=True)
    if not is_on_loop():
        with allow_queries():
            instances = list(model._base_manager.raw(write.statement.django, write.prepare(parameters)))
            return instances[0] if instances else None
    rows = write.run(parameters)
    names = [field.attname for field in model._meta.concrete_fields]
    return model.from_db(DEFAULT_DB_ALIAS, names, rows[0]) if rows else None


def refresh(instance: models.Model, *, lock: bool = False) -> None:
    """Reload all fields, and lock the row with SELECT FOR UPDATE if requested.

    Like `instance.refresh_from_db()`. Raises DoesNotExist and Django's database errors.
    """
    model: Any = type(instance)
    if lock:
        check_atomic()
    if not is_on_loop():
        queryset = model._base_manager.select_for_update() if lock else model._base_manager.all()
        with allow_queries():
            instance.refresh_from_db(from_queryset=queryset)
        return
    rows = compile_refresh(model, lock).run([instance.pk])
    if not rows:
        raise model.DoesNotExist
    for field, value in zip(model._meta.concrete_fields, rows[0], strict=True):
        setattr(instance, field.attname, value)


@cache
def compile_insert(model: type[models.Model]) -> CompiledWrite:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    query = InsertQuery(model)
    query.insert_values(fields, [model()])
    compiler = query.get_compiler(connection=get_dialect())
    compiler.returning_fields = [model._meta.pk]
    ((sql, _),) = compiler.as_sql()
    return CompiledWrite(compile_statement(sql), fields)


def prepare_update(
    model: type[models.Model], where: dict[str, Any], values: dict[str, Any], *, returning: bool = False
) -> tuple[CompiledWrite, list[Any]]:
    conditions = sorted(where.items())  # Django sorts them as well.
    nulls = tuple((name, value is None) for name, value in conditions)
    write = compile_update(model, nulls, tuple(values), returning)
    return write, [*values.values(), *(value for _, value in conditions if value is not None)]


@cache
def compile_update(
    model: type[models.Model], nulls: tuple[tuple[str, bool], ...], values: tuple[str, ...], returning: bool
) -> CompiledWrite:
    """Compile an update that returns either all fields of each updated row or a constant.

    `nulls` tells for each field of the conditions whether it is compared with NULL.
    """
    conditions = {name: None if is_null else RawSQL("%s", [name]) for name, is_null in nulls}
    query: Any = model._base_manager.filter(**conditions).query.chain(UpdateQuery)
    query.add_update_values(make_placeholders(values))
    sql, names = query.get_compiler(connection=get_dialect()).as_sql()
    fields = {field.name: field for field in model._meta.concrete_fields} | {"pk": model._meta.pk}
    columns = [get_dialect().ops.quote_name(field.column or "") for field in model._meta.concrete_fields]
    returning_sql = f"{sql} RETURNING {', '.join(columns) if returning else 1}"
    return CompiledWrite(compile_statement(returning_sql), [fields[name] for name in names])


@cache
def compile_refresh(model: type[models.Model], lock: bool) -> CompiledWrite:
    query = model._base_manager.filter(**make_placeholders(["pk"])).query
    sql, _ = query.get_compiler(connection=get_dialect()).as_sql()
    locking = f" {get_dialect().ops.for_update_sql()}" if lock else ""
    return CompiledWrite(compile_statement(f"{sql}{locking}"), [model._meta.pk])


def make_placeholders(names: Sequence[str]) -> dict[str, RawSQL]:
    """Create expressions that compile to %s, with the name of the field as the parameter."""
    return {name: RawSQL("%s", [name]) for name in names}
