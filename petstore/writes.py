"""Inserts whose SQL is compiled once, as that of reads.py: building it anew took a third of a create."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.db import connections, models, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.sql import InsertQuery

from petstore.engine import postgresql
from petstore.engine.waiting import in_thread, on_loop

Model = TypeVar("Model", bound=models.Model)

COMPILES = "compiled_inserts" in settings.FAST_STEPS
NUMBERS = count(1)


class Statement(NamedTuple):
    """A compiled insert, which returns the new primary key."""

    sql: str
    on_loop: postgresql.Statement
    fields: list[models.Field[Any, Any]]
    dialect: BaseDatabaseWrapper  # Never connects: on the event loop there is no thread to own it.


def insert(new: Model) -> Model:
    """Write a new row, in a transaction of its own where none is open; sets its primary key.

    Like `new.save(force_insert=True)`, without its signals. Raises what Django raises for a query.
    """
    if not COMPILES:
        in_thread(new.save, force_insert=True)
        return new
    alias = router.db_for_write(type(new))
    statement = compile_insert(type(new), alias)
    dialect = statement.dialect
    values = [field.get_db_prep_save(field.pre_save(new, True), dialect) for field in statement.fields]
    if on_loop():
        ((new.pk,),) = postgresql.writers(alias).rows(statement.on_loop, values)
    else:
        with connections[alias].cursor() as cursor:
            cursor.execute(statement.sql, values)
            (new.pk,) = cursor.fetchone()
    return new


@cache
def compile_insert(model: type[models.Model], alias: str) -> Statement:
    """Compile the insert of all fields but the primary key, which the database assigns."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    dialect = connections.create_connection(alias)
    query = InsertQuery(model)
    query.insert_values(fields, [model()])
    compiler = query.get_compiler(connection=dialect)
    compiler.returning_fields = [model._meta.pk]
    ((sql, _),) = compiler.as_sql()
    on_loop = postgresql.Statement(f"insert_{next(NUMBERS)}".encode(), postgresql.numbered(sql))
    return Statement(sql, on_loop, fields, dialect)
