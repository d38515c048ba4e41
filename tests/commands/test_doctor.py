"""`manage.py doctor`: each check finds its problem, and says what to do next."""

import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from email.message import Message
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.sessions.models import Session
from django.core.checks import Error as CheckError
from django.db import OperationalError, connection
from django.utils import timezone

from accounts.models import Account, EventType, OutboxEvent, WebhookEndpoint
from petstore.db.snapshots import get_oldest_snapshot_age
from petstore.health import doctor
from petstore.management.http_client import Response, UnreachableError
from tests.conftest import COMMITTED, ON_SQLITE, OPERATOR
from tests.support import commands
from tests.support.concurrency import uncommitted
from tests.support.live import ROOT
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = pytest.mark.django_db

Respond = Callable[..., None]


def run(name: str) -> tuple[str, str, str]:
    """Run a check; return its state, its finding, and what to do next."""
    result = doctor.run(name, "127.0.0.1", 8000)
    assert result["name"] == name
    return result["state"], result["detail"], result["next"]


@pytest.fixture
def respond(monkeypatch: pytest.MonkeyPatch) -> Respond:
    """Set the responses of the instance, by path."""

    def set_responses(**responses: tuple[int, Any]) -> None:
        def fetch(host: str, port: int, path: str) -> Response:
            if path[1:] not in responses:
                raise UnreachableError("refused")
            status, body = responses[path[1:]]
            headers = Message()
            headers["Content-Type"] = "application/json"
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return Response(status, headers, content)

        monkeypatch.setattr(doctor, "fetch", fetch)

    return set_responses


def test_weak_settings_are_a_problem(settings: Any) -> None:
    settings.HTTPS = settings.SESSION_COOKIE_SECURE = False
    state, detail, advice = run("settings")
    assert state == "problem"
    assert "SESSION_COOKIE_SECURE is not set to True" in detail
    assert "Set BASE_URL to an https:// URL." in advice


def test_database_must_respond_and_be_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("database")[::2] == ("ok", "")

    fail = Mock(side_effect=OperationalError("connection\nrefused"))
    monkeypatch.setattr(doctor, "check_encoding", fail)
    assert run("database")[:2] == ("problem", "connection refused")
    error = CheckError("It is LATIN1.", hint="Convert it.")
    monkeypatch.setattr(doctor, "check_encoding", lambda _: [error])
    assert run("database") == ("problem", "It is LATIN1.", "Convert it.")


@pytest.mark.parametrize(
    ("found", "state", "advice"),
    [("ok", "ok", ""), ("missing", "problem", "Run manage.py migrate."), ("unknown", "skipped", "")],
)
def test_missing_migrations_are_a_problem(
    monkeypatch: pytest.MonkeyPatch, found: str, state: str, advice: str
) -> None:
    monkeypatch.setattr(doctor, "check_migrations", lambda: found)
    assert run("migrations")[::2] == (state, advice)


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        ("clocks", -4, "ok"), ("clocks", 6, "problem"), ("clocks", -6, "problem"),
        ("commits", "on", "ok"), ("commits", "local", "ok"), ("commits", "off", "problem"),
        ("snapshots", 600, "ok"), ("snapshots", 601, "problem"),
    ],
)  # fmt: skip
def test_clocks_commits_and_snapshots_are_checked_on_postgresql_only(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, state: str
) -> None:
    """Clocks may differ by five seconds, commits wait for the disk, snapshots last ten minutes."""
    clock = time.time
    if name == "clocks":
        monkeypatch.setattr(time, "time", lambda: clock() - value)
    elif name == "snapshots":
        monkeypatch.setattr(doctor, "get_oldest_snapshot_age", lambda: value)
    elif not ON_SQLITE:
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL synchronous_commit = {value}")
    found, detail, _ = run(name)
    assert found == ("skipped" if ON_SQLITE else state)
    assert ON_SQLITE or name != "commits" or detail == f"synchronous_commit is {value}."


READ, WRITE = "SELECT count(*) FROM accounts_plan", "UPDATE accounts_feed SET last_id = last_id"


@NEEDS_POSTGRESQL
@COMMITTED
@pytest.mark.parametrize(("isolation", "sql"), [("REPEATABLE READ", READ), ("READ COMMITTED", WRITE)])
def test_idle_transaction_that_keeps_row_versions_is_an_old_snapshot(isolation: str, sql: str) -> None:
    started: list[float] = []

    def begin() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            cursor.execute(sql)
        started.append(time.time())

    with uncommitted(begin):
        seconds = time.time() - started[0]
        assert get_oldest_snapshot_age() >= seconds


def test_folders_must_be_writable_and_have_space(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.METRICS_DIR = str(tmp_path / "not" / "yet")
    state, detail, _ = run("folders")
    assert (state, f"{tmp_path} (METRICS_DIR) has " in detail) == ("ok", True)
    monkeypatch.setattr(doctor, "MIN_FREE", 1 << 40)
    assert run("folders")[0] == "problem"
    monkeypatch.undo()
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    state, detail, _ = run("folders")
    assert (state, f"{tmp_path} (METRICS_DIR) is not writable" in detail) == ("problem", True)


@pytest.mark.parametrize(("value", "state"), [("1\n", "ok"), ("0\n", "problem"), (None, "skipped")])
def test_kernel_must_migrate_connections_to_another_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, state: str
) -> None:
    """Kernels before 5.14, and systems other than Linux, lack the file."""
    file = tmp_path / "tcp_migrate_req"
    if value is not None:
        file.write_text(value)
    monkeypatch.setattr(doctor, "CONNECTION_MIGRATION", file)
    found, _, advice = run("kernel")
    assert (found, "docs/deploying.md" in advice) == (state, state == "problem")


@pytest.mark.parametrize(
    ("status", "location", "state", "finding"),
    [
        (200, "", "ok", "responds."),
        (301, "http://testserver/", "problem", "responds with status 301 to http://testserver/."),
    ],
)
def test_base_url_must_respond_with_the_home_page(
    monkeypatch: pytest.MonkeyPatch, status: int, location: str, state: str, finding: str
) -> None:
    message = Message()
    if location:
        message["Location"] = location
    send = Mock(return_value=Response(status, message, b""))
    monkeypatch.setattr(doctor, "send", send)
    found, detail, advice = run("address")
    assert (found, detail, "TRUSTED_PROXY_COUNT" in advice) == (
        state, f"http://testserver/ {finding}", state == "problem"
    )  # fmt: skip
    assert send.call_args.args == ("GET", "http://testserver/")
    send.side_effect = UnreachableError("refused")
    assert run("address")[:2] == ("skipped", "refused")


@pytest.mark.parametrize(
    ("readiness", "problem"),
    [
        ((200, {"replica1": "ok"}), ""),
        ((503, {"status": "draining"}), "PetstoreNotReady"),
        ((200, {"replica1": "lagging"}), "PetstoreReplicaLag"),
    ],
)
def test_workers_must_be_ready_and_use_every_server(
    respond: Respond, readiness: tuple[int, Any], problem: str
) -> None:
    respond(healthz=(200, {}), readyz=readiness)
    state, _, advice = run("workers")
    assert (state, problem in advice) == ("problem" if problem else "ok", True)
    respond()
    assert run("workers")[:2] == ("problem", "refused")
    assert run("metrics")[:2] == ("skipped", "refused")
    respond(healthz=(200, {}), readyz=(200, b"<html>"))
    assert run("workers")[0] == "problem"


def test_metrics_of_the_alerts_must_be_exported(respond: Respond) -> None:
    lines = [f'{name}{{a="b"}} 1' for name in doctor.ALERT_METRICS | doctor.POSTGRESQL_METRICS]
    respond(metrics=(200, "\n".join(lines).encode()))
    assert run("metrics")[0] == "ok"
    respond(metrics=(200, "\n".join(lines).replace("petstore_bans_total", "x").encode()))
    assert run("metrics")[1] == "/metrics lacks petstore_bans_total of the alerts."
    respond(metrics=(404, {}))
    assert run("metrics")[0] == "skipped"


def test_events_without_a_position_are_a_problem() -> None:
    OutboxEvent.build(EventType.PET_DELETED, {}).save()
    assert run("events")[0] == "ok"
    OutboxEvent.objects.update(created_at=time.time_ns() // 1000 - 11_000_000)
    state, detail, advice = run("events")
    assert (state, detail.startswith("1 have waited")) == ("problem", True)
    assert "Sequencing events failed" in advice


def test_late_webhooks_are_a_problem(account: Account) -> None:
    endpoint = WebhookEndpoint.objects.add(account, url="https://93.184.216.34/", by=OPERATOR)
    assert run("webhooks")[0] == "ok"
    endpoint.next_attempt_at = timezone.now() - timedelta(seconds=61)
    endpoint.save()
    assert run("webhooks")[2] == "See PetstoreWebhooksLate in docs/runbooks.md."


def test_neglected_housekeeping_is_a_problem() -> None:
    session = Session(session_key="a", session_data="", expire_date=timezone.now() - timedelta(hours=47))
    session.save()
    assert run("housekeeping")[0] == "ok"
    session.expire_date -= timedelta(hours=2)
    session.save()
    assert "manage.py housekeeping" in run("housekeeping")[2]


def test_problem_is_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, failing = (lambda *_: ("All is well.", "")), (lambda *_: ("A\x1b[2J\nmess", "Tidy up."))
    monkeypatch.setattr(doctor, "CHECKS", {"database": fine})
    assert commands.run("doctor") == "ok       Database: All is well.\nProblems found: 0.\n"
    monkeypatch.setattr(doctor, "CHECKS", {"database": fine, "clocks": failing})
    printed = commands.run("doctor", status=1)
    assert "\nproblem  Clocks: A\\u001b[2J mess\n         Next: Tidy up.\n" in printed
    assert commands.run_json("doctor", status=1)["problems"] == 1


def test_doctor_knows_the_metrics_and_the_runbooks_of_all_alerts() -> None:
    text = Path(doctor.__file__).read_text()
    runbooks = re.findall(r"^## (\w+)", (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"Petstore\w+", text)) <= set(runbooks)
    alerts = set(re.findall(r"\bpetstore_\w+", (ROOT / "deploy/prometheus/alerts.yaml").read_text()))
    # Exported with replicas, and after the first failure.
    conditional = {"petstore_replica_lag_seconds", "petstore_background_failures_total"}
    assert alerts - conditional == doctor.ALERT_METRICS | doctor.POSTGRESQL_METRICS
