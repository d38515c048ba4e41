"""The vendor and the unique identifier of the database."""

from contextlib import closing
from functools import cache
from pathlib import Path

from django.db import connection


@cache
def is_postgresql() -> bool:
    """Return whether the database is PostgreSQL rather than SQLite.

    The result is cached because accessing Django's connection would create one for each request on the
    event loop.
    """
    return connection.vendor == "postgresql"


@cache
def get_database_id() -> str:
    """Return an identifier that a promoted standby keeps, but a restored dump does not.

    A value that is stored in a table would be the same in a copy of the database. PostgreSQL's initdb
    generates the system identifier. A copy of an SQLite file has another path or inode. Raises
    django.db.Error.
    """
    connection.ensure_connection()
    # Django's cursor warns while apps are not loaded, as in `manage.py serve`.
    with connection.wrap_database_errors, closing(connection.connection.cursor()) as cursor:
        if is_postgresql():
            cursor.execute("SELECT system_identifier, current_database() FROM pg_control_system()")
            system, name = cursor.fetchone()
            return f"postgresql {system}/{name}"
        cursor.execute("PRAGMA database_list")
        file = Path(cursor.fetchone()[2]).resolve()
        return f"sqlite {file} {file.stat().st_ino}"
