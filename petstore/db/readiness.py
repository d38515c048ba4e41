"""Whether the database can serve: see petstore/observability/health.py."""

from functools import cache

from django.db import DEFAULT_DB_ALIAS, Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from petstore.db import monitor
from petstore.observability.health import OK


def database() -> str:
    """Return `ok`, or `unreachable`. Where the watch runs it has just asked."""
    if DEFAULT_DB_ALIAS in monitor.servers:
        return "unreachable" if monitor.is_away(DEFAULT_DB_ALIAS) else OK
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "unreachable"
    finally:
        connection.close()  # The check's thread ends with it.
    return OK


def migrations() -> str:
    """Return `ok`, `missing` while one of this version is not applied, `unknown` without a database."""
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except Error:
        return "unknown"
    finally:
        connection.close()
    return OK if needed() <= applied.keys() else "missing"


@cache
def needed() -> frozenset[tuple[str, str]]:
    """Return the app and the name of each migration of this version."""
    return frozenset(MigrationLoader(None).disk_migrations or ())
