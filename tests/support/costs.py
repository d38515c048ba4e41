"""The cost of a statement in blocks or steps, which is the same on any machine, unlike its time."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext
from psycopg import sql

# Blocks of 8 KiB: some for each of a page's 51 rows and for the rows joined to it.
MAX_BLOCKS = 500
MAX_STEPS = 15_000  # Of SQLite's virtual machine; a scan of 20,000 rows takes some 100,000.
STEPS_PER_CALL = 100

Page = Callable[[], Any]


def count_queries(page: Page) -> int:
    with CaptureQueriesContext(connection) as queries:
        page()
    return len(queries)


@contextmanager
def recorded_statements() -> Iterator[list[tuple[str, Any]]]:
    """Record the executed statements with their parameters."""
    statements: list[tuple[str, Any]] = []

    def record(execute: Any, sql: str, params: Any, *others: Any) -> Any:
        statements.append((sql, params))
        return execute(sql, params, *others)

    with connection.execute_wrapper(record):
        yield statements


def explain(queries: Iterable[str]) -> Iterator[str]:
    """Yield PostgreSQL's plan of each SELECT."""
    with connection.cursor() as cursor:
        for query in queries:
            if query.startswith("SELECT"):
                cursor.execute(f"EXPLAIN {query}".replace("%", "%%"))
                yield "\n".join(line for (line,) in cursor.fetchall())


def check_page(page: Page, table: str) -> None:
    """Check the cost of every read of the table that the page makes."""
    with recorded_statements() as statements:
        assert page().status_code == 200
    reads = [one for one in statements if one[0].startswith("SELECT") and f'FROM "{table}"' in one[0]]
    assert reads
    for statement in reads:
        check_cost(*statement)


def check_cost(statement: str, params: Sequence[Any]) -> None:
    """Check that a statement that Django executes costs no more than a page needs."""
    if connection.vendor == "postgresql":
        first, *others = statement.split("%s")
        prepared = first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))
        check_blocks(prepared.replace("%%", "%"), params)
    else:
        check_steps(statement, params)


def check_blocks(prepared: str, params: Sequence[Any]) -> None:
    """Check the blocks that a prepared statement reads with a generic and with a custom plan."""
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
            total = re.findall(r"Buffers: shared(.*)", plan)[0]
            blocks = sum(map(int, re.findall(r"(?:hit|read)=(\d+)", total)))
            assert blocks < MAX_BLOCKS, f"{mode}: {blocks} blocks\n{plan}"
            assert not re.findall(r"Removed by Filter: \d{3,}", plan), f"{mode}\n{plan}"


def count_steps(act: Page) -> int:
    """Return the steps of SQLite that an act takes."""
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += STEPS_PER_CALL

    connection.ensure_connection()
    connection.connection.set_progress_handler(step, STEPS_PER_CALL)
    try:
        act()
    finally:
        connection.connection.set_progress_handler(None, STEPS_PER_CALL)
    return taken


def check_steps(statement: str, params: Any) -> None:
    with connection.cursor() as cursor:
        taken = count_steps(lambda: cursor.execute(statement, params).fetchall())
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}", params)
        plan = cursor.fetchall()
    assert taken < MAX_STEPS, f"{taken} steps\n{plan}"


def measure(act: Page) -> int:
    """Return the rows that an act reads and writes on PostgreSQL, or its steps on SQLite.

    PostgreSQL counts the rows of the current transaction.
    """
    if connection.vendor == "postgresql":
        counted = (
            "SELECT sum(seq_tup_read + idx_tup_fetch + n_tup_ins + n_tup_upd) FROM pg_stat_xact_user_tables"
        )
        with connection.cursor() as cursor:
            cursor.execute(counted)
            [before] = cursor.fetchone()
            act()
            cursor.execute(counted)
            return int(cursor.fetchone()[0] - before)
    return count_steps(act)


LARGE_SHOP = [
    """INSERT INTO accounts_account (public_id, name, plan_id, created_at)
       SELECT lpad(n::text, 8, '0'), 'Customer ' || n, 'pro', now() FROM generate_series(1, 3000) AS n""",
    """INSERT INTO accounts_apikey (account_id, public_id, mode, name, digest, pepper_number, scopes,
                                    allowed_networks, created_at, revoked_reason)
       SELECT id, public_id || 'abcdef', 'live', '', '', 1, 'pets:read', '[]', now(), ''
       FROM accounts_account""",
    """INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at)
       SELECT 'Customer ' || n, (SELECT min(id) FROM inventory_category),
              (ARRAY['available', 'pending', 'sold'])[1 + n % 3], now(), now()
       FROM generate_series(1, 60000) AS n""",
    """INSERT INTO inventory_order (account_id, pet_id, status, created_at, updated_at)
       SELECT (SELECT min(id) FROM accounts_account), id, 'delivered', now(), now() FROM inventory_pet""",
    """INSERT INTO accounts_dailyusage (key_id, day, admitted, rejected)
       SELECT key.id, current_date - day, 1000, 10
       FROM accounts_apikey AS key, generate_series(0, 364) AS day WHERE key.id % 10 = 0
       ON CONFLICT DO NOTHING""",
    """INSERT INTO accounts_deprecateduse (account_id, operation, day, admitted, last_call_at)
       SELECT id, 'getPet', current_date - day, 5, now()
       FROM accounts_account, generate_series(0, 364) AS day WHERE id % 10 = 0 ON CONFLICT DO NOTHING""",
    """INSERT INTO accounts_rejection (request_id, rejected_at, account_id, key_id, reason, method, route,
                                       minute_limit, minute_used, minute_ends_at, day_limit, day_used,
                                       day_ends_at)
       SELECT 'request-' || id, now(), account_id, id, 'rate_limit_exceeded', 'GET', '/v1/pets', 60, 60,
              now(), 1000, 60, now() FROM accounts_apikey""",
    """INSERT INTO backoffice_auditentry (at, actor_name, action, model, object_id, object_text, before,
                                          after, reason, address, request_id)
       SELECT now(), '', 'changed', '', '', '', '{}', '{}', '', '127.0.0.1', 'request-' || id
       FROM accounts_apikey""",
    "ANALYZE",
]
LARGE_TABLES = {
    "inventory_pet", "inventory_order", "inventory_petevent", "accounts_apikey", "accounts_dailyusage",
    "accounts_rejection", "accounts_minutehistogram", "accounts_deprecateduse", "backoffice_auditentry",
}  # fmt: skip


def fill_shop() -> None:
    """Fill the tables, so that PostgreSQL scans none of them for a few rows."""
    with connection.cursor() as cursor:
        for statement in LARGE_SHOP:
            cursor.execute(statement)


def sequential_scans(plan: str) -> set[str]:
    """Return the large tables that a plan scans sequentially."""
    return set(re.findall(r"Seq Scan on (\w+)", plan)) & LARGE_TABLES
