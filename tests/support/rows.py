"""Writing rows into the database of a running service, without its code."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg


@contextmanager
def writing_to(url: str) -> Iterator[Any]:
    """Yield a function that runs statements in a transaction."""
    is_sqlite = url.startswith("sqlite")
    connect: Any = sqlite3.connect if is_sqlite else psycopg.connect
    path = url.removeprefix("sqlite:///") if is_sqlite else url
    options = {"timeout": 60} if is_sqlite else {}
    with closing(connect(path, **options)) as connection:

        def execute(statement: str, rows: list[Any]) -> None:
            cursor = connection.cursor()
            cursor.executemany(statement.replace("%s", "?") if is_sqlite else statement, rows)
            connection.commit()

        yield execute


def insert(execute: Any, table: str, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    values = ", ".join(["%s"] * len(names))
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"
    execute(statement, [tuple(row.values()) for row in rows])
