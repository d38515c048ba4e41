"""Liveness and readiness, which never hang."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from socket import create_server
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.test import Client

from petstore.health import checks
from petstore.health.checks import FAILED, NO_RESPONSE, Check, find_migrations, run_checks
from petstore.server.shutdown import is_draining
from tests.conftest import COMMITTED


def test_healthz_uses_no_database(client: Client) -> None:
    response = client.get("/healthz")  # Without the fixture `db`, a query would fail the test.
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@COMMITTED
def test_readyz_lists_healthy_checks(client: Client) -> None:
    assert not is_draining()
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "database": "ok", "migrations": "ok"}


@COMMITTED
def test_readyz_is_503_only_while_a_migration_is_missing(client: Client, monkeypatch: Any) -> None:
    applied = find_migrations()
    monkeypatch.setattr(checks, "find_migrations", lambda: applied | {("inventory", "9999_unapplied")})
    response = client.get("/readyz")
    assert response.status_code == 503
    assert (response.json()["database"], response.json()["migrations"]) == ("ok", "missing")
    monkeypatch.setattr(checks, "find_migrations", lambda: applied - {("inventory", "0014_version_2")})
    assert client.get("/readyz").status_code == 200  # The database has a migration of a newer version.


def test_migrations_are_found_without_loading_them() -> None:
    assert find_migrations() == (MigrationLoader(None).disk_migrations or {}).keys()


def test_readyz_names_the_failing_check(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Check(Mock(side_effect=OperationalError))
    monkeypatch.setattr(checks, "checks", {"database": Check(lambda: "ok"), "migrations": failing})
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"status": "unavailable", "database": "ok", "migrations": FAILED}


def test_failing_database_is_unreachable(db: None) -> None:
    with connection.execute_wrapper(Mock(side_effect=OperationalError)):
        assert (checks.check_database(), checks.check_migrations()) == ("unreachable", "unknown")


@COMMITTED
def test_readyz_times_out_on_a_silent_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("Only PostgreSQL is reached over a network.")
    with create_server(("127.0.0.1", 0)) as listener:  # Accepts connections and never responds.
        monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        monkeypatch.setitem(connection.settings_dict, "PORT", str(listener.getsockname()[1]))
        began = time.monotonic()
        response = client.get("/readyz")
        assert time.monotonic() - began < 2
    assert response.status_code == 503
    assert response.json()["database"] == NO_RESPONSE


def test_concurrent_probes_share_one_check() -> None:
    release = threading.Event()
    runs = []

    def hang() -> str:
        runs.append(threading.current_thread())
        release.wait(10)
        return "ok"

    check = {"database": Check(hang)}
    with ThreadPoolExecutor(20) as pool:
        states = list(pool.map(lambda _: run_checks(check, timeout=0.05), range(60)))
        assert states == [{"database": NO_RESPONSE}] * 60
        assert len(runs) == 1
        release.set()
    runs[0].join()
    assert run_checks(check, timeout=5) == {"database": "ok"}
    assert len(runs) == 2


def test_checks_run_concurrently() -> None:
    barrier = threading.Barrier(2)
    probe = Check(lambda: "ok" if barrier.wait(5) >= 0 else "")
    other = Check(lambda: "ok" if barrier.wait(5) >= 0 else "")
    assert run_checks({"one": probe, "other": other}, timeout=5) == {"one": "ok", "other": "ok"}


def test_probes_ignore_the_host_header_and_https(client: Client, monkeypatch: Any, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    monkeypatch.setattr(checks, "checks", {"database": Check(lambda: "ok")})
    for path in ("/healthz", "/readyz"):
        assert client.head(path, headers={"Host": "10.0.0.7:8000"}).status_code == 200
        assert client.post(path).status_code == 405
