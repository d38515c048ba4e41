"""Short statements on Django's connection, and on others without its code."""

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
from django.db import connection


def fetch_value(sql: str, *params: Any) -> Any:
    """Return the first value of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()[0]


def connect_to(database: str) -> Any:
    """Return a context manager of a new connection to the database with this URL."""
    if database.startswith("sqlite:///"):
        file = database.removeprefix("sqlite:///")
        return closing(sqlite3.connect(file, timeout=60, check_same_thread=False))
    return closing(psycopg.connect(database))


def select(database: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query to the database with this URL."""
    with connect_to(database) as connection:
        return list(connection.execute(query))


def insert(connection: Any, table: str, rows: list[dict[str, Any]]) -> None:
    """Insert rows in the connection's transaction."""
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    marks = ", ".join([mark] * len(rows[0]))
    statement = f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({marks})"
    connection.cursor().executemany(statement, [tuple(row.values()) for row in rows])
