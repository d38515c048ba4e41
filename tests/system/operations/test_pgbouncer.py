"""PgBouncer in transaction mode, where each transaction may get another connection."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest

from tests.support.live import Service
from tests.support.migrated import migrated_server
from tests.support.postgresql import PostgreSQLServer, owner, postgresql_server, server_folder
from tests.support.servers import free_port, wait_until
from tests.support.skips import needs_program
from tests.system.operations.machines import OWN_SERVERS, instance

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [*OWN_SERVERS, needs_program(PGBOUNCER, "pgbouncer")]

SERVER_CONNECTIONS = 3

CONFIGURATION = """
[databases]
postgres = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
logfile = {folder}/pgbouncer.log
"""


@contextmanager
def pgbouncer(server: PostgreSQLServer) -> Iterator[str]:
    """Yield a DATABASE_URL of a PgBouncer in front of the server."""
    assert PGBOUNCER is not None
    with server_folder() as folder:
        port = free_port()
        file = folder / "pgbouncer.ini"
        file.write_text(
            CONFIGURATION.format(
                server=server.port, port=port, connections=SERVER_CONNECTIONS, folder=folder
            )
        )
        process = subprocess.Popen([PGBOUNCER, "-q", str(file)], **owner())
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        try:
            wait_until(lambda: psycopg.connect(url, connect_timeout=2).close())
            yield url
        finally:
            process.kill()
            process.wait()


class Pooled(NamedTuple):
    """A service behind PgBouncer."""

    server: PostgreSQLServer
    pooler: str  # Its URL.
    service: Service


@pytest.fixture(scope="module", params=["threads", "loop"])
def pooled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Each serve mode in turn."""
    settings = {"SERVE_MODE": request.param, "DATABASE_PREPARED_STATEMENTS": "false"}
    with (
        postgresql_server(copy_of=migrated_server()) as server,
        pgbouncer(server) as url,
        instance(tmp_path_factory.mktemp("pooled"), url, **settings) as service,
    ):
        yield Pooled(server, url, service)


def test_service_works_behind_pgbouncer_in_transaction_mode(pooled: Pooled) -> None:
    server, _, service = pooled
    key = service.issue_high_limit_key("Pooled")

    def shop(_: int) -> list[int]:
        """Perform each operation once; each transaction may use another connection."""
        with service.client(key) as client:
            made = client.post("/pets", json={"name": "Rex", "categoryId": 1})
            twice = {"Idempotency-Key": f"order-{made.json()['id']}"}
            order = {"petId": made.json()["id"]}
            responses = [
                made,
                client.get(f"/pets/{made.json()['id']}"),
                client.get("/pets?limit=3&status=available"),
                client.post("/store/orders", json=order, headers=twice),
                client.post("/store/orders", json=order, headers=twice),
                client.get("/store/orders"),
            ]
            return [response.status_code for response in responses]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(shop, range(40)))
    assert found == [[201, 200, 200, 201, 201, 200]] * 40
    with psycopg.connect(server.url) as connection:
        shared = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
    assert shared is not None
    assert shared[0] <= SERVER_CONNECTIONS  # So the connections were shared.
    assert httpx.get(f"{service.url}/readyz").json()["status"] == "ok"
    server.freeze()
    try:
        with service.client(key) as client:  # Rejected in time, although the pooler would let it wait.
            assert 503 in {client.get("/pets", timeout=2).status_code for _ in range(3)}
    finally:
        server.freeze(thaw=True)
    with service.client(key) as client:
        wait_until(lambda: client.get("/pets").raise_for_status())


@pytest.mark.parametrize("pooled", ["loop"], indirect=True)
def test_counting_behind_pgbouncer_is_exact_and_changes_no_setting_of_others(pooled: Pooled) -> None:
    limits = ("--per-minute", "1000000", "--per-day", "1100")
    key = str(pooled.service.issue("Exact", "enterprise", *limits)["key"])
    with (
        psycopg.connect(pooled.pooler, autocommit=True, prepare_threshold=None) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        before = read_settings(other)
        requests = pool.submit(pooled.service.send, key, 1_150, threads=16)
        found = {before}
        while wait([requests], timeout=0.005).not_done:  # Another client of the same connections.
            found.add(read_settings(other))
    statuses = Counter(response.status_code for response in requests.result())
    assert statuses[200] == 1_100
    assert statuses.keys() <= {200, 429, 503}  # On a busy machine, some wait too long for a lock.
    assert found == {before}


def read_settings(connection: psycopg.Connection[Any]) -> tuple[Any, ...] | None:
    names = ("synchronous_commit", "lock_timeout")
    columns = ", ".join(f"current_setting('{name}')" for name in names)
    return connection.execute(f"SELECT {columns}".encode()).fetchone()
