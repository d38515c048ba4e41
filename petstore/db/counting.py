"""Statements that count requests, each in a transaction of its own."""

from collections.abc import Hashable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections


class CountingStatement:
    """A raw SQL statement with %(name)s parameters that returns at most one row.

    On the event loop, Django's connection has a method for such statements, which share a connection.
    """

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def execute(self, group: Hashable, **parameters: Any) -> tuple[Any, ...] | None:
        """Run the statement. Those of a group, an account, compete for locks. Raises Django's errors."""
        wrapper: Any = connections[DEFAULT_DB_ALIAS]
        if hasattr(wrapper, "fetch_counting"):
            rows = wrapper.fetch_counting(group, self.sql, parameters)
        else:
            with wrapper.cursor() as cursor:
                cursor.execute(self.sql, parameters)
                rows = cursor.fetchall()
        return rows[0] if rows else None
