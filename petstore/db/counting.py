"""Statements that count requests, each in a transaction of its own."""

from collections.abc import Hashable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections


def execute_counting(sql: str, group: Hashable, parameters: dict[str, Any]) -> tuple[Any, ...] | None:
    """Run SQL with %(name)s parameters that returns at most one row. Raises Django's database errors.

    Statements of a group, an account, compete for locks. On the event loop, where all requests share a
    connection for counting, Django's connection has a method for them.
    """
    wrapper: Any = connections[DEFAULT_DB_ALIAS]
    if hasattr(wrapper, "fetch_counting"):
        rows = wrapper.fetch_counting(group, sql, parameters)
    else:
        with wrapper.cursor() as cursor:
            cursor.execute(sql, parameters)
            rows = cursor.fetchall()
    return rows[0] if rows else None
