"""What a statement touches, which is the same on any machine, unlike the time it takes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext
from psycopg import sql

# Blocks of 8 KiB: some for each of a page's 51 rows and for what is joined to it.
MOST_BLOCKS = 500
MOST_STEPS = 15_000  # Of SQLite's virtual machine; a walk along 20,000 rows takes some 100,000.
STEPS = 100

Page = Callable[[], Any]


def queries_of(page: Page) -> int:
    """Return how many queries a page takes."""
    with CaptureQueriesContext(connection) as queries:
        page()
    return len(queries)


def plans(queries: Iterable[str]) -> Iterator[str]:
    """Yield how PostgreSQL carries out each SELECT."""
    with connection.cursor() as cursor:
        for query in queries:
            if query.startswith("SELECT"):
                cursor.execute(f"EXPLAIN {query}".replace("%", "%%"))
                yield "\n".join(line for (line,) in cursor.fetchall())


def check_page(page: Page, table: str) -> None:
    """Check what every read of the table that the page makes touches."""
    statements: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, *others: Any) -> Any:
        if sql.startswith("SELECT") and f'FROM "{table}"' in sql:
            statements.append((sql, params))
        return execute(sql, params, *others)

    page()  # What is kept by a worker, or written once a minute, is no part of it.
    with connection.execute_wrapper(note):
        assert page().status_code == 200
    assert statements
    for statement in statements:
        check_cost(*statement)


def check_cost(statement: str, params: Sequence[Any]) -> None:
    """Check that a statement of Django's, with these values, touches no more than a page needs."""
    if connection.vendor == "postgresql":
        first, *rest = statement.split("%s")
        prepared = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
        check_blocks(prepared.replace("%%", "%"), params)
    else:
        check_steps(statement, params)


def check_blocks(prepared: str, params: Sequence[Any]) -> None:
    """Check it for PostgreSQL, as a prepared statement and as one that is planned anew."""
    values = sql.SQL(", ").join(map(sql.Literal, params)).as_string(None)
    with connection.cursor() as cursor:
        for mode in ("force_generic_plan", "force_custom_plan"):
            cursor.execute(f"SET plan_cache_mode = {mode}")
            cursor.execute(f"PREPARE page AS {prepared}")
            cursor.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE page{f' ({values})' if params else ''}"
            )
            plan = "\n".join(line for (line,) in cursor.fetchall())
            cursor.execute("DEALLOCATE page")
            cursor.execute("RESET plan_cache_mode")
            all_of_it = re.findall(r"Buffers: shared(.*)", plan)[0]
            blocks = sum(map(int, re.findall(r"(?:hit|read)=(\d+)", all_of_it)))
            assert blocks < MOST_BLOCKS, f"{mode}: {blocks} blocks\n{plan}"
            assert not re.findall(r"Removed by Filter: \d{3,}", plan), f"{mode}\n{plan}"


def check_steps(statement: str, params: Any) -> None:
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += STEPS

    with connection.cursor() as cursor:
        connection.connection.set_progress_handler(step, STEPS)
        try:
            cursor.execute(statement, params)
            cursor.fetchall()
        finally:
            connection.connection.set_progress_handler(None, STEPS)
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}", params)
        plan = cursor.fetchall()
    assert taken < MOST_STEPS, f"{taken} steps\n{plan}"
