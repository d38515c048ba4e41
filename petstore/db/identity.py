"""The vendor of the database."""

from functools import cache

from django.db import connection


@cache
def is_postgresql() -> bool:
    """Return whether the database is PostgreSQL rather than SQLite.

    The result is cached because accessing Django's connection would create one for each request on the
    event loop.
    """
    return connection.vendor == "postgresql"
