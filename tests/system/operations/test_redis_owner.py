"""Redis belongs to one database: a copy with the same Redis can't affect production's keys."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import psycopg
import pytest
from accounts.quota.database_store import DatabaseQuotaStore
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis_store import RedisQuotaStore
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, connections
from petstore.event_loop.redis_scripts import (
    CHECK_INTERVAL,
    OWNER_KEY,
    RedisOwnershipError,
    RedisUnavailableError,
    ScriptRunner,
)

from petstore.db.identity import get_database_id
from petstore.event_loop import redis_scripts
from tests.support.command_runner import CommandRunner
from tests.support.event_loop import run, run_request
from tests.support.live import Service, migrated_database, stopped_service, temporary_database
from tests.support.quota import Sender
from tests.support.servers import RedisServer, free_port, redis_server, wait_until
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.tcp_proxy import tcp_proxy
from tests.system.quota.test_redis_servers import cluster

DATABASE_ID = "the tests' database"
ECHO = redis_scripts.make_script("return ARGV[1]", idempotent=True)

RunSteps = Callable[[str, list[Callable[[], object]]], list[Any]]


@pytest.fixture(autouse=True)
def database_id(monkeypatch: pytest.MonkeyPatch, redis: RedisServer) -> None:
    """Set this process's database identity without a query, and use an empty Redis."""
    redis.client.flushall()
    monkeypatch.setattr(redis_scripts, "get_database_id", lambda: DATABASE_ID)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, which the test moves."""
    now = [1_000.0]
    monkeypatch.setattr(redis_scripts, "monotonic", lambda: now[0])
    return now


@pytest.fixture(params=["thread", "loop"])
def run_steps(request: pytest.FixtureRequest) -> RunSteps:
    """Run a script before and after each step, in a thread or on one event loop; return the results."""

    def outcome(runner: ScriptRunner) -> Any:
        try:
            return runner.run(ECHO, ["{a}"], ["well"])
        except RedisUnavailableError as error:
            return type(error)

    def run_in_thread(url: str, steps: list[Callable[[], object]]) -> list[Any]:
        runner = ScriptRunner(url)
        found = [outcome(runner)]
        for step in steps:
            step()
            found.append(outcome(runner))
        runner.close()
        return found

    def run_on_loop(url: str, steps: list[Callable[[], object]]) -> list[Any]:
        async def main() -> list[Any]:
            runner = ScriptRunner(url)
            found = [await run_request(lambda: outcome(runner))]
            for step in steps:
                step()
                found.append(await run_request(lambda: outcome(runner)))
            return found

        return run(main())

    return run_in_thread if request.param == "thread" else run_on_loop


# --- Ownership -----------------------------------------------------------------------------------


def test_first_database_to_use_a_redis_becomes_its_owner(redis: RedisServer, run_steps: RunSteps) -> None:
    assert run_steps(redis.url, []) == [b"well"]
    assert redis.client.get(OWNER_KEY) == DATABASE_ID.encode()
    assert redis.client.ttl(OWNER_KEY) == -1


def test_redis_of_another_database_is_not_written(redis: RedisServer, run_steps: RunSteps) -> None:
    redis.client.set(OWNER_KEY, "another")
    assert run_steps(redis.url, [lambda: None]) == [RedisOwnershipError] * 2
    assert redis.client.keys() == [OWNER_KEY.encode()]
    assert redis.client.get(OWNER_KEY) == b"another"


def test_redis_claimed_by_another_database_is_abandoned_within_seconds(
    redis: RedisServer, run_steps: RunSteps, clock: list[float]
) -> None:
    def claim() -> None:
        redis.client.set(OWNER_KEY, "another")
        clock[0] += CHECK_INTERVAL

    def claim_back() -> None:
        redis.client.set(OWNER_KEY, DATABASE_ID)

    outcomes = run_steps(redis.url, [claim, lambda: None, claim_back])
    assert outcomes == [b"well", RedisOwnershipError, RedisOwnershipError, b"well"]


def test_flushed_redis_is_reclaimed_within_seconds(
    redis: RedisServer, run_steps: RunSteps, clock: list[float]
) -> None:
    def flush() -> None:
        redis.client.flushall()
        clock[0] += CHECK_INTERVAL

    assert run_steps(redis.url, [flush]) == [b"well"] * 2
    assert redis.client.get(OWNER_KEY) == DATABASE_ID.encode()


def test_replacement_server_is_checked_before_it_is_used(
    redis: RedisServer, run_steps: RunSteps, clock: list[float], tmp_path: Path
) -> None:
    with redis_server(tmp_path) as other, tcp_proxy(redis.port) as proxy:
        other.client.set(OWNER_KEY, "another")

        def replace() -> None:
            proxy.target = other.port
            proxy.cut()

        outcomes = run_steps(proxy.url, [replace, lambda: None])
        assert outcomes[0] == b"well"
        assert b"well" not in outcomes[1:]
        assert other.client.keys() == [OWNER_KEY.encode()]


def test_requests_send_no_ownership_commands(
    redis: RedisServer, run_steps: RunSteps, clock: list[float]
) -> None:
    def count_commands() -> int:
        stats: Any = redis.client.info("commandstats")
        return sum(int(stats.get(name, {"calls": 0})["calls"]) for name in ("cmdstat_get", "cmdstat_set"))

    counted: list[int] = []
    run_steps(redis.url, [lambda: counted.append(count_commands())] * 20)
    assert counted[0] == counted[-1]


def test_redis_is_not_used_before_the_database_is_identified(
    redis: RedisServer, run_steps: RunSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> str:
        raise DatabaseError

    def recover() -> None:
        monkeypatch.setattr(redis_scripts, "get_database_id", lambda: DATABASE_ID)

    monkeypatch.setattr(redis_scripts, "get_database_id", down)
    assert run_steps(redis.url, [recover]) == [RedisUnavailableError, b"well"]


def test_reply_to_another_command_names_no_owner(redis: RedisServer) -> None:
    with pytest.raises(RedisUnavailableError, match="Unexpected reply") as rejected:
        ScriptRunner(redis.url)._check_owner(lambda *_: [b"another's"])
    assert not isinstance(rejected.value, RedisOwnershipError)


# redis-py's cluster client leaves connections open, of which the collector warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_cluster_of_another_database_is_not_used_and_requests_do_not_wait_for_the_check(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[Any] = []

    def hang(run: Any) -> None:
        """Hang the node that has the owner while a request checks it; another request is served."""
        checks.append(run)
        if len(checks) == 1:
            assert mine.run(ECHO, ["{a}"], ["another's"]) == b"another's"
        raise TimeoutError

    with cluster(tmp_path, 3) as nodes:
        for node in nodes:
            first = ScriptRunner(node.url)
            assert [first.run(ECHO, [f"{{{slot}}}"], ["well"]) for slot in "abcdef"] == [b"well"] * 6
            first.close()
        owner = next(node for node in nodes if node.client.dbsize())
        mine = ScriptRunner(nodes[0].url)
        mine.run(ECHO, ["{a}"], ["well"])
        with monkeypatch.context() as patch:
            patch.setattr(mine, "_check_owner", hang)
            clock[0] += CHECK_INTERVAL
            assert mine.run(ECHO, ["{a}"], ["its own"]) == b"its own"
        assert len(checks) == 1
        owner.client.set(OWNER_KEY, "another")
        clock[0] += CHECK_INTERVAL
        for slot in "abcdef":
            with pytest.raises(RedisOwnershipError):
                mine.run(ECHO, [f"{{{slot}}}"], ["well"])
        mine.close()


# --- Without ownership ---------------------------------------------------------------------------


def test_database_counts_and_logs_it_once_until_redis_is_claimed_back(
    redis: RedisServer, db: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.quota.fallback.PROBE_SECONDS", 0.01)
    store = FallbackQuotaStore(RedisQuotaStore(redis.url), DatabaseQuotaStore())
    acme = Sender(per_minute=5, per_day=100)
    redis.client.set(OWNER_KEY, "another")
    assert acme.admitted(9) == 5
    assert redis.client.keys() == [OWNER_KEY.encode()]
    assert ["claim_redis" in record.message for record in caplog.records] == [True]
    redis.client.set(OWNER_KEY, DATABASE_ID)
    wait_until(lambda: store.active_backend == "redis")
    store.close()


# --- Databases and their copies ------------------------------------------------------------------


@NEEDS_POSTGRESQL
def test_ordinary_role_may_identify_the_database(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE petstore_ordinary")
        cursor.execute("SET LOCAL ROLE petstore_ordinary")
    assert (
        get_database_id.__wrapped__()
        == f"postgresql {system_identifier()}/{connection.settings_dict['NAME']}"
    )


def test_failed_identification_raises_djangos_error(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper: Any = connections["default"]
    failure = wrapper.Database.OperationalError("The connection closed.")
    with monkeypatch.context() as patch:
        patch.setattr(wrapper, "connection", Mock(cursor=Mock(side_effect=failure)))
        patch.setattr(wrapper, "errors_occurred", False)
        with pytest.raises(DatabaseError):
            get_database_id.__wrapped__()


def system_identifier() -> int:
    """Return the identifier that a streaming standby also compares."""
    parameters = connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}
    parameters = {
        name: parameters[name] for name in ("dbname", "host", "port", "user") if name in parameters
    }
    with psycopg.connect(**parameters, replication="database", autocommit=True) as asks:
        (found,) = asks.execute("IDENTIFY_SYSTEM").fetchall()
    return int(found[0])


@pytest.mark.each_database
def test_copy_that_shares_redis_changes_nothing_for_production(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with ExitStack() as stack:
        redis_url = stack.enter_context(redis_server(tmp_path)).url
        url = stack.enter_context(temporary_database(tmp_path, migrated_database()))
        service = stopped_service(tmp_path, url, REDIS_URL=redis_url)
        stack.callback(service.stop)
        key = service.issue("Acme")
        other = stack.enter_context(temporary_database(tmp_path / "copy", url))
        copy = CommandRunner(service.environment | {"DATABASE_URL": other})
        stack.callback(copy.close)
        service.start(1)
        customer = stack.enter_context(service.client(key["key"]))
        assert customer.get("/pets?limit=1").status_code == 200
        for command in (
            ("suspend_account", "Acme", "--reason", "A drill"),
            ("revoke_key", key["id"], "--reason", "A drill"),
            ("serve", "--port", str(free_port())),
        ):
            status, _, err = copy.run(*command)
            assert status == 1
            assert "manage.py claim_redis" in err
            assert err.startswith("CommandError: ")  # No warning, no traceback.
        (listed,) = json.loads(copy.manage("list_keys", "--json"))
        assert listed["state"] == "active"
        assert customer.get("/pets?limit=1").status_code == 200

        claimed = json.loads(copy.manage("claim_redis", "--json"))
        assert claimed["before"] != claimed["database"]
        wait_until(lambda: is_counting_in(service, customer, "database"))
        copy.manage("suspend_account", "Acme", "--reason", "A drill")
        assert customer.get("/pets?limit=1").status_code == 200

        service.manage("claim_redis")
        wait_until(lambda: is_counting_in(service, customer, "redis"))
        assert customer.get("/pets?limit=1").status_code == 200
        assert service.log().count("Redis belongs to another database") == 1


def is_counting_in(service: Service, customer: httpx.Client, where: str) -> bool:
    """Return whether the worker counts there. A worker without requests notices no change."""
    customer.get("/pets?limit=1")
    return bool(httpx.get(f"{service.url}/readyz").json()["quota"] == where)


@pytest.mark.parametrize(
    ("redis_url", "text"),
    [("", "REDIS_URL is not set"), ("redis://127.0.0.1:1", "could not be claimed")],
)
def test_unavailable_redis_is_not_claimed(settings: Any, db: None, redis_url: str, text: str) -> None:
    settings.REDIS_URL = redis_url
    with pytest.raises(CommandError, match=text):
        call_command("claim_redis")
