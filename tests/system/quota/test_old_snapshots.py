"""An old snapshot (a dump, a forgotten transaction) does not make counting slower."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from accounts.models import QuotaUsage, StrikeCounter
from tests.conftest import COMMITTED
from tests.support.quota import Sender
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import times

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

ROWS = times(40, 5)  # That are replaced.
REQUESTS = 20  # For each of them.
# Of one statement: its few rows, and the MAX_UPDATES versions of the counter in use, on some 20 pages.
MAX_BUFFERS = 50


@contextmanager
def old_snapshot() -> Iterator[None]:
    """Hold a snapshot in another session, so that no version of a row can be removed."""
    options = connection.get_connection_params()
    names = ("host", "port", "user", "dbname", "password")
    parameters = {name: options[name] for name in names if options.get(name)}
    with psycopg.connect(**parameters) as session:
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        session.execute("SELECT count(*) FROM accounts_quotausage")
        yield


def count_buffers(action: Callable[[], Any]) -> int:
    """Return the most buffers that one of the action's statements touches."""
    found: list[int] = []

    def explain(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SET LOCAL"):
            return execute(sql, parameters, many, context)
        session = context["connection"].connection  # psycopg's, which this wrapper does not see.
        with session.transaction(force_rollback=True), session.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", parameters)
            plan = cursor.fetchone()[0][0]["Plan"]
            found.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(explain):
        action()
    return max(found)


UPDATE = """
DO $$ BEGIN FOR number IN 1..{times} LOOP
    UPDATE {model._meta.db_table} SET updates = {times} WHERE {owner};
END LOOP; END $$
"""


def wear_out(model: type[QuotaUsage | StrikeCounter], owner: str) -> None:
    """Update the owner's row until it will be replaced after 10 more updates."""
    with connection.cursor() as cursor:
        cursor.execute(UPDATE.format(model=model, owner=owner, times=model.MAX_UPDATES - 10))


def test_counter_and_strikes_read_few_buffers_while_an_old_snapshot_is_open(transactional_db: None) -> None:
    acme, hasty = (Sender(per_minute=limit, per_day=1_000_000) for limit in (100_000, 1))
    hasty.send()
    with old_snapshot():
        for _ in range(ROWS):
            assert (acme.admitted(REQUESTS), hasty.admitted(REQUESTS)) == (REQUESTS, 0)
            wear_out(QuotaUsage, f"account_id = {acme.account.pk}")
            wear_out(StrikeCounter, f"key_id = {hasty.keys[0].pk}")
        assert (acme.admitted(REQUESTS), hasty.admitted(REQUESTS)) == (REQUESTS, 0)
        assert count_buffers(acme.send) < MAX_BUFFERS
        assert count_buffers(hasty.send) < MAX_BUFFERS
    requests = (ROWS + 1) * REQUESTS + 1
    current = QuotaUsage.current(acme.account.pk).get()
    assert (current.generation, current.day_used) == (ROWS, requests)
    strikes = StrikeCounter.objects.get(key=hasty.keys[0])
    assert (strikes.generation, strikes.rejections) == (ROWS, requests)
