"""The vendor of the database, and an identifier that no other database has."""

from contextlib import closing
from functools import cache
from pathlib import Path

from django.db import connection


@cache
def is_postgresql() -> bool:
    """Whether it is PostgreSQL rather than SQLite.

    Cached, since access to Django's connection would create one for each request on the event loop.
    """
    return connection.vendor == "postgresql"


@cache
def get_database_id() -> str:
    """Identify the database; a promoted standby keeps the identifier, a restored dump does not.

    Nothing stored in the database distinguishes it from a copy. PostgreSQL's system identifier comes from
    initdb; a copy of an SQLite file has another path or inode. Raises django.db.Error.
    """
    connection.ensure_connection()
    # Django's own cursor warns while no app is loaded, as in `manage.py serve`.
    with closing(connection.connection.cursor()) as cursor:
        if is_postgresql():
            cursor.execute("SELECT system_identifier, current_database() FROM pg_control_system()")
            system, name = cursor.fetchone()
            return f"postgresql {system}/{name}"
        cursor.execute("PRAGMA database_list")
        file = Path(cursor.fetchone()[2]).resolve()
        return f"sqlite {file} {file.stat().st_ino}"
