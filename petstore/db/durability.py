"""Transactions that need not survive a crash of the database."""

from django.db import connection

from petstore.db.identity import is_postgresql


def commit_asynchronously() -> None:
    """Let the current transaction commit without waiting for the disk, so that it holds its locks briefly.

    Only for what counts requests: a crash of PostgreSQL may lose it (D60).
    """
    if is_postgresql():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")
