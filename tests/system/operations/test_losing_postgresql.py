"""PostgreSQL fails under load: 503 within two seconds; full service five seconds after it is back.

A crash forgets only the counts of its last moment, and no acknowledged write.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.live import Service
from tests.support.migrated import migrated_server
from tests.support.postgresql import (
    FAST,
    IMMEDIATE,
    PostgreSQLServer,
    postgresql_server,
    standby_server,
)
from tests.support.servers import wait_until
from tests.system.operations.machines import OWN_SERVERS, Customers, instance

pytestmark = OWN_SERVERS

RESPONSE_SECONDS = 2.0
RECOVERY_SECONDS = 5.0
CUSTOMERS = 16  # More than there are threads: the others queue.
KILLS = 2
PER_DAY = 800
FORGOTTEN_SECONDS = 0.6  # Three times wal_writer_delay: later counts may not be on disk yet.


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQLServer]:
    with postgresql_server(copy_of=migrated_server()) as server:
        yield server


@pytest.fixture(scope="module", params=["threads", "loop"])
def service(
    request: pytest.FixtureRequest,
    postgresql: PostgreSQLServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp(request.param)
    settings = {"SERVE_MODE": request.param, "DATABASE_STATEMENT_TIMEOUT": "700"}
    with instance(folder, postgresql.url, **settings) as service:
        yield service


@pytest.fixture(scope="module")
def key(service: Service) -> str:
    return service.issue_high_limit_key("Steady")


def customers(service: Service, key: str) -> Customers:
    return Customers(CUSTOMERS, service.url, key, lambda client: client.get("/pets?limit=2"))


@pytest.mark.parametrize("fault", ["fast shutdown", "immediate shutdown", "silence"])
def test_every_request_gets_a_503_in_time_until_the_database_is_back(
    service: Service, key: str, postgresql: PostgreSQLServer, fault: str
) -> None:
    faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "fast shutdown": (lambda: postgresql.stop(FAST), postgresql.start),
        "immediate shutdown": (lambda: postgresql.stop(IMMEDIATE), postgresql.start),
        "silence": (postgresql.freeze, lambda: postgresql.freeze(thaw=True)),
    }
    begin, end = faults[fault]
    with customers(service, key) as load:
        wait_until(lambda: load.each_got(200, since=0))
        began = time.monotonic()
        begin()
        try:
            wait_until(lambda: load.each_got(503, since=began))
            assert httpx.get(f"{service.url}/healthz", timeout=RESPONSE_SECONDS).status_code == 200
            ready = httpx.get(f"{service.url}/readyz", timeout=RESPONSE_SECONDS)
            assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        finally:
            end()
        back = time.monotonic()
        wait_until(lambda: load.each_got(200, since=back))
    assert load.statuses().keys() == {200, 503}
    rejected = [outcome for outcome in load.all if outcome.status == 503]
    assert {outcome.body["code"] for outcome in rejected} == {"service_unavailable"}
    assert {outcome.retry_after for outcome in rejected} == {"2"}
    assert max(outcome.took for outcome in load.all) < RESPONSE_SECONDS
    assert max(outcome.arrived for outcome in rejected) - back < RECOVERY_SECONDS


def test_statement_that_takes_too_long_is_a_503(
    service: Service, key: str, postgresql: PostgreSQLServer
) -> None:
    with psycopg.connect(postgresql.url) as blocker, customers(service, key) as load:
        wait_until(lambda: load.each_got(200, since=0))
        blocker.execute("LOCK TABLE inventory_pet IN ACCESS EXCLUSIVE MODE")
        locked = time.monotonic()
        wait_until(lambda: 503 in load.statuses(since=locked))
        blocker.rollback()
        freed = time.monotonic()
        wait_until(lambda: load.each_got(200, since=freed))
    assert load.statuses().keys() == {200, 503}
    assert "is unavailable" not in service.log().rpartition("is available again")[2]


def test_service_that_starts_without_its_database_waits_for_it(
    service: Service, key: str, postgresql: PostgreSQLServer
) -> None:
    service.stop()
    postgresql.stop(IMMEDIATE)
    try:
        service.start(1)
        with service.client(key) as client:
            assert client.get("/pets").status_code == 503
    finally:
        postgresql.start()
    began = time.monotonic()
    with service.client(key) as client:
        wait_until(lambda: client.get("/pets").raise_for_status())
    assert time.monotonic() - began < RECOVERY_SECONDS


def test_service_continues_with_a_promoted_standby(tmp_path: Path) -> None:
    with ExitStack() as stack:
        # Acknowledged commits are on the standby as well.
        primary = stack.enter_context(
            postgresql_server("synchronous_standby_names=*", copy_of=migrated_server())
        )
        standby = stack.enter_context(standby_server(primary))
        url = (
            f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
            "?target_session_attrs=read-write"
        )
        service = stack.enter_context(instance(tmp_path, url))
        key, pet = service.issue_high_limit_key("Loyal"), {"name": "Rex", "categoryId": 1}
        with Customers(8, service.url, key, lambda client: client.post("/pets", json=pet)) as load:
            wait_until(lambda: load.each_got(201, since=0))
            began = time.monotonic()
            primary.stop(signal.SIGKILL)
            wait_until(lambda: load.each_got(503, since=began))
            standby.promote()
            promoted = time.monotonic()
            wait_until(lambda: load.each_got(201, since=promoted))
        assert load.statuses().keys() == {201, 503}
        assert max(outcome.took for outcome in load.all) < RESPONSE_SECONDS
        rejected = [outcome.arrived for outcome in load.all if outcome.status == 503]
        assert max(rejected) - promoted < RECOVERY_SECONDS
        added = {outcome.body["id"] for outcome in load.all if outcome.status == 201}
        with psycopg.connect(standby.url) as connection:
            stored = {row[0] for row in connection.execute("SELECT id FROM inventory_pet")}
        assert added <= stored


def test_killed_server_forgets_only_the_counts_of_its_last_moment(tmp_path: Path) -> None:
    limits = ("--per-minute", "1000000", "--per-day", str(PER_DAY))
    pet = {"name": "Rex", "categoryId": 1}
    killed: list[float] = []
    with ExitStack() as stack:
        server = stack.enter_context(postgresql_server(copy_of=migrated_server()))
        service = stack.enter_context(instance(tmp_path, server.url))
        key = service.issue("Counted", "enterprise", *limits)["key"]
        writer = service.issue_high_limit_key("Writer")
        with (
            Customers(CUSTOMERS, service.url, key, lambda client: client.get("/pets?limit=1")) as readers,
            Customers(2, service.url, writer, lambda client: client.post("/pets", json=pet)) as writers,
        ):
            for _ in range(KILLS):
                before = readers.statuses()[200]
                wait_until(lambda: readers.statuses()[200] > before + PER_DAY / (2 * KILLS))  # noqa: B023
                killed.append(time.monotonic())
                server.kill()
                server.start()
            wait_until(lambda: readers.each_got(429, since=killed[-1]))
            wait_until(lambda: writers.each_got(201, since=killed[-1]))
        with psycopg.connect(server.url) as connection:
            stored = {row[0] for row in connection.execute("SELECT id FROM inventory_pet")}
    assert {outcome.body["id"] for outcome in writers.all if outcome.status == 201} <= stored
    assert readers.statuses().keys() == {200, 429, 503}
    assert writers.statuses().keys() == {201, 503}
    rejected = [outcome for outcome in readers.all + writers.all if outcome.status == 503]
    assert {outcome.retry_after for outcome in rejected} == {"2"}
    admitted = [outcome for outcome in readers.all if outcome.status == 200]
    forgotten = [
        outcome
        for outcome in admitted
        if any(outcome.sent < end and end - FORGOTTEN_SECONDS < outcome.arrived for end in killed)
    ]
    assert len(admitted) <= PER_DAY + len(forgotten)
    # A request whose response was lost counts at most once.
    assert len(admitted) + readers.statuses()[503] >= PER_DAY
