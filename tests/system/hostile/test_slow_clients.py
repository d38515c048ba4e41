"""Slow clients are disconnected in time, and delay no others (RFC 9110 section 15.5.9)."""

import json
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
from tests.support.raw_http import parse_response, read_until_closed
from tests.support.servers import wait_until
from tests.system.hostile.conftest import IN_ONE_MODE

CLIENT_SECONDS = 1
connect = partial(raw_http.connect, timeout=CLIENT_SECONDS + 5)
SLOW_CLIENTS = 520  # More than a worker's concurrent requests.
POST = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def service(short_timeout_service: Service) -> Service:
    return short_timeout_service


FRAMINGS = (b"Content-Length: 10\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n")
LATE = {
    "head": [b"", b"GET /v1/pe", b"GET /v1/pets HTTP/1.1\r\nHost: local", b"\r\n"],
    "form": [
        POST % path + framing + b"3\r\n{"
        for path in (b"/account/login/", b"/admin/")
        for framing in FRAMINGS
    ],
    "body": [
        POST % path + b"Authorization: Bearer %(key)s\r\nX-Request-Id: late\r\n" + framing + b"3\r\n{  "
        for path in (b"/v1/pets", b"/v1/store/orders")
        for framing in (*FRAMINGS, b"Content-Length: 60000\r\n\r\n")
    ],
    "next request": [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"],
}  # fmt: skip


@pytest.fixture(scope="module")
def late(service: Service) -> dict[str, list[bytes]]:
    """The responses to requests of which a part never arrives, all at the same time."""
    key = service.issue_high_limit_key("Late").encode()
    began = time.monotonic()
    opened = {
        part: [connect(service, request.replace(b"%(key)s", key)) for request in requests]
        for part, requests in LATE.items()
    }
    responses = {part: [read_until_closed(one) for one in opened[part]] for part in opened}
    assert time.monotonic() - began < CLIENT_SECONDS + 5
    return responses


def test_connection_with_an_incomplete_head_is_closed(late: dict[str, list[bytes]]) -> None:
    assert late["head"] == [b""] * len(LATE["head"])


def test_idle_connection_is_closed(late: dict[str, list[bytes]]) -> None:
    assert [response[:13] for response in late["next request"]] == [b"HTTP/1.1 200 "]


def test_late_form_is_a_408(late: dict[str, list[bytes]]) -> None:
    assert [response[:13] for response in late["form"]] == [b"HTTP/1.1 408 "] * len(LATE["form"])


def test_late_body_gets_the_documented_408(service: Service, late: dict[str, list[bytes]]) -> None:
    for response in late["body"]:
        status, headers, body = parse_response(response)
        assert status == 408
        assert {"code", "message", "status"} == set(json.loads(body))
        assert (json.loads(body)["code"], json.loads(body)["status"]) == ("request_timeout", 408)
        assert (headers["content-type"], headers["connection"]) == ("application/json", "close")
        assert headers["x-request-id"] == "late"
        assert int(headers["x-ratelimit-limit"]) > int(headers["x-ratelimit-remaining"]) > 0
        assert int(headers["x-ratelimit-reset"]) > 0
    logged = re.compile(r'^(?=.*"status":408).*"late"', re.MULTILINE)
    wait_until(lambda: len(logged.findall(service.log())) == len(LATE["body"]))


def send_slowly_beside_others(service: Service, sent: bytes) -> None:
    key = service.issue_high_limit_key("Patient")
    with ExitStack() as slow:
        for _ in range(SLOW_CLIENTS):
            slow.enter_context(connect(service, sent))
        with service.client(key) as client:
            assert [client.get("/pets").status_code for _ in range(5)] == [200] * 5
            assert client.post("/pets", json={"name": "Quick", "categoryId": 1}).status_code == 201


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 60000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n"]
)
def test_others_are_served_while_many_bodies_are_slow(service: Service, framing: bytes) -> None:
    send_slowly_beside_others(service, POST % b"/v1/pets" + framing)


@IN_ONE_MODE
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/pets HTTP/1.1\r\nHost: ",
        POST % b"/account/login/" + b"Content-Length: 60000\r\n\r\na",
        b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,  # The client reads no responses.
    ],
    ids=["head", "form", "response"],
)
def test_others_are_served_while_many_are_slow(service: Service, sent: bytes) -> None:
    send_slowly_beside_others(service, sent)


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


@IN_ONE_MODE
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


@IN_ONE_MODE
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
