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

REQUESTS = times(40_000, 5000)
# Of one statement: its few rows, and the MAX_UPDATES versions of the counter in use, 50 or more to a page.
MAX_BUFFERS = 100


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


def test_counter_and_strikes_read_few_buffers_while_an_old_snapshot_is_open(transactional_db: None) -> None:
    acme = Sender(per_minute=REQUESTS, per_day=10 * REQUESTS)
    hasty = Sender(per_minute=1, per_day=10 * REQUESTS)
    hasty.send()
    with old_snapshot():
        assert acme.admitted(REQUESTS - 1) == REQUESTS - 1
        assert count_buffers(acme.send) < MAX_BUFFERS
        assert hasty.admitted(REQUESTS) == 0
        assert count_buffers(hasty.send) < MAX_BUFFERS
    current = QuotaUsage.current(acme.account.pk).get()
    assert (current.day_used, current.updates <= QuotaUsage.MAX_UPDATES) == (REQUESTS, True)
    strikes = StrikeCounter.objects.get(key=hasty.keys[0])
    assert (strikes.rejections, strikes.updates <= StrikeCounter.MAX_UPDATES) == (REQUESTS + 1, True)
