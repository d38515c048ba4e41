"""Which database the service runs on: its kind, and its name among all others."""

from contextlib import closing
from functools import cache
from pathlib import Path

from django.db import connection


@cache
def is_postgresql() -> bool:
    """Tell whether it is PostgreSQL, or else SQLite.

    Kept, because whoever asks Django's connection first in a request on the event loop makes it: a tenth of
    the request.
    """
    return connection.vendor == "postgresql"


@cache
def identity() -> str:
    """Name the database as a promoted standby names itself, but no restored dump. Raises django.db.Error.

    Nothing that is stored in the database can tell it from its copy. PostgreSQL's system identifier is made
    by initdb; copying an SQLite file gives the copy another path or inode.
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
