"""The write-behind thread survives failures."""

from django.db import connection
from prometheus_client import REGISTRY

from accounts.usage import write_behind
from tests.conftest import COMMITTED
from tests.support.event_loop import terminate_backend
from tests.support.skips import NEEDS_POSTGRESQL


@COMMITTED
@NEEDS_POSTGRESQL
def test_step_that_loses_its_connection_does_not_affect_the_next() -> None:
    rows = []

    def lose_connection() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            terminate_backend(*cursor.fetchone())
            cursor.execute("SELECT 1")

    def query() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            rows.append(cursor.fetchone())

    write_behind.run_safely("usage", lose_connection)
    write_behind.run_safely("usage", query)
    assert rows == [(1,)]


def test_failures_are_counted_by_task() -> None:
    labels = {"task": "usage"}
    before = REGISTRY.get_sample_value("petstore_background_failures_total", labels) or 0

    def fail() -> None:
        raise ValueError

    write_behind.run_safely("usage", fail)
    assert REGISTRY.get_sample_value("petstore_background_failures_total", labels) == before + 1
