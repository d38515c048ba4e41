"""Statements that take thousands of rows as one parameter: JSON, which both databases read as a table."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import connection

from petstore.db.vendor import is_postgresql

Rows = Sequence[tuple[Any, ...]]  # In the order of a statement's columns; days and times as text.

AT_ONCE = 5_000  # Rows of one statement: some 400 KB.


class Statement(NamedTuple):
    """SQL about rows that come with it.

    It names them `{rows}`, a table expression called r. `{lock}` locks the rows of a table called k, in the
    order of the query, before they are updated; SQLite has one writer anyway.
    """

    columns: dict[str, str]  # Of the rows, with their types on PostgreSQL; SQLite takes them as they come.
    sql: str

    def run(self, rows: Rows) -> None:
        """Run it, in portions of AT_ONCE rows."""
        with connection.cursor() as cursor:
            for first in range(0, len(rows), AT_ONCE):
                cursor.execute(self._text(), [json.dumps(rows[first : first + AT_ONCE])])

    def _text(self) -> str:
        if is_postgresql():
            function, item, lock = "json_array_elements", "(value ->> {})::{}", "FOR NO KEY UPDATE OF k"
        else:
            function, item, lock = "json_each", "json_extract(value, '$[{}]')", ""
        items = (
            f"{item.format(number, kind)} AS {name}"
            for number, (name, kind) in enumerate(self.columns.items())
        )
        rows = f"(SELECT {', '.join(items)} FROM {function}(%s)) AS r"  # noqa: S608  Only constants.
        return self.sql.format(rows=rows, lock=lock)
