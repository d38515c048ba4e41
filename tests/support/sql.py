"""Short statements on Django's connection."""

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


def select(database: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query to the database with this URL."""
    if database.startswith("sqlite:///"):
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as file:
            return list(file.execute(query))
    with psycopg.connect(database) as connection:
        return list(connection.execute(query.encode()))
