"""Some hundred hostile requests, the same each time: no 5xx, no hang, no key in a log; others are served.

HOSTILE_REQUESTS=100000 HOSTILE_SEED=2 sends many others.
"""

import asyncio
import os
import re
import resource
import socket
from contextlib import ExitStack

import httpx
import pytest

from accounts.keys import key_format
from tests.support.live import Service
from tests.support.raw_http import connect, read_until_closed
from tests.system.hostile.sending import Attacker

REQUESTS = int(os.environ.get("HOSTILE_REQUESTS", "400"))
SEED = int(os.environ.get("HOSTILE_SEED", "8"))
IDLE = 2_200  # Connections: more than granian's usual 512 for each of four workers.


def test_hostile_requests_do_no_harm(service: Service) -> None:
    attacker = Attacker(
        int(service.environment["PORT"]), service.issue_high_limit_key("Hostile"), REQUESTS, SEED
    )
    findings = asyncio.run(attacker.run())
    assert findings.sent == REQUESTS
    assert {200, 400, 401, 404, 405} <= set(findings.statuses)
    assert (findings.failures, findings.hangs, findings.not_served) == ([], [], [])
    assert findings.watched > 0
    log = service.log()
    assert re.search(key_format.PATTERN, log) is None
    assert "Traceback (most recent call last)" not in log


def test_new_client_is_served_despite_many_idle_connections(service: Service) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(soft, IDLE + 500)
    if hard != resource.RLIM_INFINITY and hard < most:
        pytest.skip(f"Only {hard} files may be open here.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    address = ("127.0.0.1", int(service.environment["PORT"]))
    try:
        with ExitStack() as stack:
            for _ in range(IDLE):
                stack.enter_context(socket.create_connection(address, timeout=5))
            assert httpx.get(f"{service.url}/healthz", timeout=5).status_code == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_request_for_a_tunnel_gets_405(service: Service) -> None:
    request = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
    response = read_until_closed(connect(service, request, timeout=10))
    assert response.startswith(b"HTTP/1.1 405 ")
    assert b"This server is no proxy." in response


INNER = b"GET /v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("framing", "statuses"),
    [
        (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", [b"401"]),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", [b"401"]),
        (b"Transfer-Encoding: xchunked\r\n", [b"400"]),
        (b"Transfer-Encoding: chunked, identity\r\n", [b"400"]),
        (b"Transfer-Encoding : chunked\r\n", [b"400"]),
        (b"Transfer-Encoding:\x0bchunked\r\n", [b"400"]),
    ],
)
def test_smuggled_request_gets_one_response_and_closes_the_connection(
    service: Service, framing: bytes, statuses: list[bytes]
) -> None:
    request = b"POST /v1/pets HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n0\r\n\r\n" + INNER
    response = read_until_closed(connect(service, request, timeout=10))
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", response) == statuses
