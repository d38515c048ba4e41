"""Which database the service runs on."""

from functools import cache

from django.db import connection


@cache
def is_postgresql() -> bool:
    """Tell whether it is PostgreSQL, or else SQLite.

    Kept, because whoever asks Django's connection first in a request on the event loop makes it: a tenth of
    the request.
    """
    return connection.vendor == "postgresql"
