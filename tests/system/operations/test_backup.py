"""A backup made under writes can be restored and served from: docs/backup.md, step by step."""

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.live import Service, live_service, stopped_service
from tests.support.migrated import temporary_database
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL
from tests.system.operations.machines import Customers

# Inconsistencies that no dump may contain.
INCONSISTENCIES = {
    "pets with a live order that are not pending": """
        SELECT count(*) FROM inventory_order AS o JOIN inventory_pet AS p ON p.id = o.pet_id
        WHERE o.status IN ('placed', 'approved') AND p.status <> 'pending'
    """,
    "pets pending by an order that is not there": """
        SELECT count(*) FROM inventory_petevent AS e LEFT JOIN inventory_order AS o ON o.id = e.order_id
        WHERE e.order_id IS NOT NULL AND o.id IS NULL
    """,
    "orders without a history": """
        SELECT count(*) FROM inventory_order AS o
        WHERE NOT EXISTS (SELECT FROM inventory_orderevent AS e WHERE e.order_id = o.id)
    """,
    "keys without a history": """
        SELECT count(*) FROM accounts_apikey AS k
        WHERE NOT EXISTS (
            SELECT FROM backoffice_auditentry AS e
            WHERE e.model = 'accounts.apikey' AND e.object_id = k.id::text
        )
    """,
}


def writing_customer(service: Service, key: str) -> Customers:
    """Return a customer that adds pets and orders each."""
    pets: list[int] = []

    def write(client: httpx.Client) -> httpx.Response:
        if pets:
            return client.post("/store/orders", json={"petId": pets.pop()})
        response = client.post("/pets", json={"name": "Backup", "categoryId": 1})
        pets.append(response.json()["id"])
        return response

    return Customers(1, service.url, key, write)


def feed_position(service: Service, key: str) -> str:
    """Return the URL from which a client continues after reading an event from now on."""
    path = f"/events?limit=1&since={datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    with service.client(key) as client:
        wait_until(lambda: client.get(path).json() != [])
        url: str = client.get(path).links["next"]["url"]
    return url.removeprefix(service.environment["BASE_URL"])


def get_status(service: Service, key: str, path: str = "/pets?limit=1") -> int:
    with service.client(key) as client:
        return client.get(path).status_code


def fetch_number(connection: psycopg.Connection[tuple[int]], query: str, *parameters: object) -> int:
    row = connection.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return int(row[0])


@NEEDS_POSTGRESQL
def test_restored_backup_has_every_write_acknowledged_before_it_and_serves(tmp_path: Path) -> None:
    if shutil.which("pg_dump") is None:
        assert os.environ.get("CI") != "true", "CI must test backups: install PostgreSQL's client programs."
        pytest.skip("No pg_dump is installed.")
    dump = tmp_path / "petstore.dump"
    with live_service(tmp_path, workers=1) as first:
        first.manage("seed_demo", "--pets", "100")
        active, revoked = first.issue_high_limit_key("Backup"), first.issue("Backup")
        first.manage("revoke_key", str(revoked["id"]), "--reason", "Before the backup")
        with writing_customer(first, active) as load:
            wait_until(lambda: len(load.all) >= 10)
            before = load.all
            source = first.environment["DATABASE_URL"]
            subprocess.run(["pg_dump", "--format=custom", f"--file={dump}", source], check=True)
            wait_until(lambda: len(load.all) >= len(before) + 4)
            position = feed_position(first, active)
        assert load.statuses().keys() == {201}
        first.stop()
        with temporary_database(tmp_path) as url:
            options = ["--no-owner", "--exit-on-error", "--single-transaction"]
            subprocess.run(["pg_restore", *options, f"--dbname={url}", str(dump)], check=True)
            with psycopg.connect(url) as connection:
                for inconsistency, query in INCONSISTENCIES.items():
                    assert fetch_number(connection, query) == 0, inconsistency
                for table, member in (("inventory_pet", "name"), ("inventory_order", "petId")):
                    ids = [outcome.body["id"] for outcome in before if member in outcome.body]
                    query_by_id = f"SELECT count(*) FROM {table} WHERE id = ANY(%s)"
                    assert fetch_number(connection, query_by_id, ids) == len(ids) > 0
            second = stopped_service(tmp_path, url)
            try:
                second.manage("check", "--database", "default")
                second.manage("migrate", "--check")
                second.start(1)
                assert get_status(second, active) == 200
                with second.client(active) as client:
                    made = client.post("/pets", json={"name": "Restored", "categoryId": 1}).json()
                    assert client.post("/store/orders", json={"petId": made["id"]}).status_code == 201
                assert get_status(second, str(revoked["key"])) == 401
                # This client has read events that the backup lacks.
                assert get_status(second, active, position) == 410
            finally:
                second.stop()
