"""Admission is exact under any concurrency (D21), on the production server and on the bare store."""

import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from subprocess import PIPE, Popen
from typing import Any

import httpx
import pytest
from django.db import connection

from accounts.quota.limits import DAY, SECOND
from tests.support.hammer import times_to_ban
from tests.support.live import ROOT, Service, live_service
from tests.support.migrated import migrated_server
from tests.support.packages import python
from tests.support.postgresql import postgresql_server, programs
from tests.support.raw_http import connect, parse_response, read_until_closed
from tests.support.thorough import times

REQUEST = (
    "GET /v1/pets?limit=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
)
BANS = """
from accounts.models import ApiKey
print(ApiKey.objects.get(public_id="{}").audit_entries.filter(action="banned").count())
"""
pytestmark = pytest.mark.each_database


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose PostgreSQL has connections for 64 threads and the service."""
    options = {}
    with ExitStack() as stack:
        if connection.vendor == "postgresql" and programs() is not None:
            server = postgresql_server("max_connections=300", copy_of=migrated_server())
            options["DATABASE_URL"] = stack.enter_context(server).url
        yield stack.enter_context(live_service(tmp_path_factory.mktemp("service"), workers=4, **options))


def test_limit_of_60_admits_60_over_4_workers_and_32_threads(service: Service) -> None:
    key = service.issue("Hurried", "free")["key"]
    responses = service.send(key, 200, threads=32)
    assert Counter(response.status_code for response in responses) == {200: 60, 429: 140}
    admitted = [response for response in responses if response.is_success]
    remaining = sorted(int(response.headers["X-RateLimit-Remaining"]) for response in admitted)
    assert remaining == list(range(60))


def test_key_peeks_60_times_a_minute_over_4_workers_and_32_threads(
    service: Service,
) -> None:
    key = service.issue("Watchful", "free")["key"]
    responses = service.send(key, 200, threads=32, path="/account")
    assert Counter(response.status_code for response in responses) == {200: 60, 429: 140}
    assert {response.json()["quota"]["day"]["used"] for response in responses if response.is_success} == {0}
    responses = service.send(key, 60, threads=8)
    assert Counter(response.status_code for response in responses) == {200: 60}


def test_limit_is_exact_in_every_window_over_4_processes_of_16_threads(service: Service) -> None:
    """Each threshold is one event, although these processes exit without a final write."""
    numbers = ("--per-minute", "100", "--per-day", "100")
    key = service.issue("Hammered", "enterprise", *numbers)["key"]
    with hammers(service, key, processes=4, threads=16) as running:
        times_sent = [time.time_ns() // 1000 + number * DAY for number in range(times(20, 5))]
        assert [send_and_count(running, now) for now in times_sent] == [100] * len(times_sent)
    with service.client(service.issue_high_limit_key("Hammered")) as client:
        warnings = [event["data"] for event in follow(client, "/events?limit=100&type=quota.reached")]
    warning_counts = Counter((event["threshold"], event["used"]) for event in warnings)
    assert warning_counts == {(80, 80): len(times_sent), (100, 100): len(times_sent)}


def test_20_strikes_ban_once_over_4_processes_of_4_threads(service: Service) -> None:
    """No strike counts twice or is lost. The 20th strike bans the key, and the ban is recorded once."""
    numbers = ("--per-minute", "3", "--per-day", "1000")
    issued = service.issue("Relentless", "enterprise", *numbers)
    first = time.time_ns() // 1000
    with (
        hammers(service, issued["key"], processes=4, threads=4) as running,
        service.client(issued["key"]) as client,
    ):
        for second in (0, *range(2, 21)):
            send_and_count(running, first + second * SECOND)
        assert client.get("/account").json()["ban"] is None
        send_and_count(running, first + 21 * SECOND)
        assert client.get("/account").json()["ban"] is not None
    assert service.manage("shell", "--no-imports", "-c", BANS.format(issued["id"])).strip() == "1"


def test_500_requests_in_flight_do_not_ban_the_key(service: Service) -> None:
    """All requests are sent before any response is read."""
    for number in range(5):
        key = service.issue(f"Bursty {number}", "free")["key"]
        with ExitStack() as stack:
            sockets = [stack.enter_context(connect(service, timeout=30)) for _ in range(500)]
            for connection in sockets:
                connection.sendall(REQUEST.format(key=key).encode())
            found = Counter(read_error_code(connection) for connection in sockets)
        assert found[""] <= 60
        assert "api_key_banned" not in found
        if "service_unavailable" not in found:  # Otherwise this machine was too busy for the database.
            break
    assert found == {"": 60, "rate_limit_exceeded": 440}


def read_error_code(connection: socket.socket) -> str:
    """Read the response to its end; return its error code or ''."""
    parsed = json.loads(parse_response(read_until_closed(connection))[2])
    return parsed["code"] if isinstance(parsed, dict) else ""


def follow(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """Return the events of each page up to an empty one."""
    all_events: list[dict[str, Any]] = []
    while events := (response := client.get(path)).json():
        assert response.is_success, response.text
        all_events += events
        path = response.links["next"]["url"]
    return all_events


@contextmanager
def hammers(service: Service, key: str, *, processes: int, threads: int) -> Iterator[Popen[str]]:
    """Yield a process that reads times, and sends 4 requests per thread and process for each."""
    command = [python(), "-m", "tests.support.hammer", key, str(processes), str(threads), "4"]
    running = Popen(command, cwd=ROOT, env=service.environment, stdin=PIPE, stdout=PIPE, text=True)
    try:
        yield running
    finally:
        running.communicate(timeout=30)
        assert running.returncode == 0


def send_and_count(hammers: Popen[str], now: int) -> int:
    """Send from every process at once; return how many requests were admitted."""
    assert hammers.stdin is not None
    assert hammers.stdout is not None
    hammers.stdin.write(f"{now}\n")
    hammers.stdin.flush()
    return int(hammers.stdout.readline())


def test_no_request_is_admitted_after_revoke_key_returned(service: Service) -> None:
    issued = service.issue("Leaky", "business")
    assert all(response.is_success for response in service.send(issued["key"], 16, threads=8))
    service.manage("revoke_key", issued["id"], "--reason", "Leaked.")
    responses = service.send(issued["key"], 1_000, threads=32)
    assert not any(response.is_success for response in responses)


def test_no_key_of_an_account_works_after_suspend_account_returned_until_it_is_lifted(
    service: Service,
) -> None:
    keys = [service.issue("Unpaid", "business")["key"] for _ in range(2)]
    assert all(response.is_success for key in keys for response in service.send(key, 16, threads=8))
    service.manage("suspend_account", "Unpaid", "--reason", "Unpaid.")
    responses = [response for key in keys for response in service.send(key, 100, threads=8)]
    assert {response.json()["code"] for response in responses} == {"account_suspended"}
    service.manage("suspend_account", "Unpaid", "--lift", "--reason", "Paid.")
    assert all(response.is_success for key in keys for response in service.send(key, 16, threads=8))


def test_ban_holds_on_every_worker_until_unban_key_lifts_it(service: Service) -> None:
    issued = service.issue("Greedy", "enterprise", "--per-minute", "3", "--per-day", "1000")
    with hammers(service, issued["key"], processes=1, threads=1) as running:
        running.communicate(times_to_ban(), timeout=30)
    with service.client(issued["key"]) as client:
        codes = [client.get("/pets?limit=1").json()["code"] for _ in range(8)]
        assert set(codes) == {"api_key_banned"}
        service.manage("unban_key", issued["id"], "--reason", "Their loop is mended.")
        responses = [client.get("/pets?limit=1").json() for _ in range(4)]
    # The minute is still used up.
    assert {response["code"] for response in responses} == {"rate_limit_exceeded"}
