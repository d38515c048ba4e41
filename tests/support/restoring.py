"""Restores the database after each test that commits, so that tests run in any order.

Django restores it only before the next test that commits, so all of those would have to run last; and it
inserts each row on its own.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase

PRISTINE = "pristine"  # The schema with the rows of the migrated database.


@contextmanager
def restoring_after_commits(blocker: Any) -> Iterator[None]:
    """Copy the migrated database, and restore it after each test that commits."""
    test_case: Any = TransactionTestCase
    with closing(sqlite3.connect(":memory:")) as pristine, pytest.MonkeyPatch.context() as patch:
        with blocker.unblock():
            restore = copy_sqlite(pristine) if connection.vendor == "sqlite" else copy_postgresql()
        patch.setattr(test_case, "_fixture_setup", classmethod(lambda _: None))
        patch.setattr(test_case, "_fixture_teardown", lambda _: restore())
        yield


def copy_sqlite(pristine: sqlite3.Connection) -> Callable[[], None]:
    """Copy the database into an empty one; return a function that restores it."""
    connection.ensure_connection()
    connection.connection.backup(pristine)

    def restore() -> None:
        connection.ensure_connection()
        pristine.backup(connection.connection)

    return restore


def copy_postgresql() -> Callable[[], None]:
    """Copy the tables that have rows; return a function that restores them and empties the others."""
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    filled = find_filled(tables)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {PRISTINE}")
        for table in filled:
            cursor.execute(f"CREATE TABLE {PRISTINE}.{table} AS TABLE {table}")

    def restore() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            # Without triggers and foreign keys. The service itself can't empty the audit trail.
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(f"TRUNCATE {', '.join({*filled, *find_filled(tables)})} CASCADE")
            for table in filled:
                cursor.execute(f"INSERT INTO {table} TABLE {PRISTINE}.{table}")

    return restore


def find_filled(tables: list[str]) -> list[str]:
    """Return the tables that have rows."""
    query = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [name for (name,) in cursor.fetchall()]
