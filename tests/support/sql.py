"""Short statements on Django's connection."""

from typing import Any

from django.db import connection


def fetch_value(sql: str, *params: Any) -> Any:
    """Return the first value of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()[0]
