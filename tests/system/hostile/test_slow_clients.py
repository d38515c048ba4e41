"""Slow clients are disconnected in time, and delay no others (RFC 9110 section 15.5.9)."""

import re
import socket
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import raw_http
from tests.support.large_file import LARGE_FILE
from tests.support.live import Service
from tests.support.raw_http import read_until_closed
from tests.support.servers import wait_until

CLIENT_SECONDS = 1
connect = partial(raw_http.connect, timeout=CLIENT_SECONDS + 5)
SLOW_CLIENTS = 300  # More than a worker's concurrent requests.
POST = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def service(short_timeout_service: Service) -> Service:
    return short_timeout_service


def test_connection_with_an_incomplete_head_is_closed(service: Service) -> None:
    began = time.monotonic()
    heads = [b"", b"GET /v1/pe", b"GET /v1/pets HTTP/1.1\r\nHost: local", b"\r\n"]
    assert [read_until_closed(slow) for slow in [connect(service, head) for head in heads]] == [b""] * len(
        heads
    )
    assert time.monotonic() - began < CLIENT_SECONDS + 5


def test_late_form_is_a_408(service: Service) -> None:
    framings = [b"Content-Length: 10\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n3\r\n"]
    requests = [
        POST % path + framing + b"{" for path in (b"/account/login/", b"/admin/") for framing in framings
    ]
    for slow in [connect(service, request) for request in requests]:
        assert read_until_closed(slow).startswith(b"HTTP/1.1 408 ")


def test_idle_connection_is_closed(service: Service) -> None:
    response = read_until_closed(connect(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    assert response.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/pets HTTP/1.1\r\nHost: ",
        POST % b"/v1/pets" + b"Content-Length: 60000\r\n\r\n{",
        POST % b"/v1/pets" + b"Transfer-Encoding: chunked\r\n\r\n",
        POST % b"/account/login/" + b"Content-Length: 60000\r\n\r\na",
        b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,  # The client reads no responses.
    ],
    ids=["head", "body", "chunks", "page", "response"],
)
def test_others_are_served_while_many_are_slow(service: Service, sent: bytes) -> None:
    key = service.issue_high_limit_key("Patient")
    with ExitStack() as slow:
        for _ in range(SLOW_CLIENTS):
            slow.enter_context(connect(service, sent))
        with service.client(key) as client:
            assert [client.get("/pets").status_code for _ in range(5)] == [200] * 5
            assert client.post("/pets", json={"name": "Quick", "categoryId": 1}).status_code == 201


def request_without_reading(service: Service) -> socket.socket:
    """Request a large file with a small socket buffer, check that it starts to arrive, and stop reading."""
    connection = socket.socket()
    connection.settimeout(CLIENT_SECONDS + 5)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", urlsplit(service.url).port))
    connection.sendall(f"GET {LARGE_FILE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert connection.recv(15) == b"HTTP/1.1 200 OK"
    return connection


def count_connections(service: Service) -> int:
    """Return the number of open connections of the service."""
    port = urlsplit(service.url).port
    assert port is not None
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(local.endswith(f":{port:04X}") and state == "01" for _, local, _, state, *_ in rows)


def test_connection_with_unread_responses_is_closed(service: Service) -> None:
    wait_until(lambda: count_connections(service) == 0)
    with ExitStack() as slow:
        most = 0
        for _ in range(20):
            slow.enter_context(request_without_reading(service))
            most = max(
                most, count_connections(service)
            )  # On a slow machine the first may close before the last one opens.
        assert most
        wait_until(lambda: count_connections(service) == 0)


def test_unread_responses_wait_on_disk_and_not_in_memory(service: Service) -> None:
    with ExitStack() as slow:
        for _ in range(10):  # Excludes what a worker loads with the first request.
            slow.enter_context(request_without_reading(service))
        before = read_memory(service)
        for _ in range(60):
            slow.enter_context(request_without_reading(service))
        assert read_memory(service) - before < 20 * 1024 * 1024


def read_memory(service: Service) -> int:
    """Return the worker's resident memory in bytes."""
    _, worker = service.processes()
    (kib,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())
    return int(kib) * 1024
