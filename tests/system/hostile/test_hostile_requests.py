"""Some hundred hostile requests, the same each time: no 5xx, no hang, no key in a log; others are served.

`python -m tests.system.hostile --requests 100000` sends many more.
"""

import re
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.support.live import Service, live_service
from tests.support.raw_http import connect, rest
from tests.support.servers import RedisServer
from tests.system.hostile.report import attack, report

IDLE = 1_200  # Connections: more than granian's usual 512 for each of two workers.


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Iterator[Service]:
    """The service as it runs on this database: on a loop with PostgreSQL, in threads with SQLite."""
    with live_service(tmp_path_factory.mktemp("hostile"), workers=2, REDIS_URL=redis.url) as service:
        yield service


def test_hostile_requests_harm_nobody(service: Service) -> None:
    findings = attack(service, service.roomy_key("Hostile"), requests=400, seed=8, slow=0)
    lines, bad = report(findings, service.log(), 0)
    assert not bad, "\n".join(lines)
    assert findings.sent == 400
    assert {200, 400, 401, 404, 405} <= set(findings.statuses)
    assert findings.watched > 0


def test_new_client_is_answered_while_very_many_are_connected(service: Service) -> None:
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


INNER = b"GET /v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("framing", "statuses"),
    [
        (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", [b"401"]),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", [b"401"]),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n", [b"400"]),
        (b"Content-Length: 5, 6\r\n", [b"400"]),
        (b"Content-Length: +5\r\n", [b"400"]),
        (b"Transfer-Encoding: xchunked\r\n", [b"400"]),
        (b"Transfer-Encoding: chunked, identity\r\n", [b"400"]),
        (b"Transfer-Encoding : chunked\r\n", [b"400"]),
        (b"Transfer-Encoding:\x0bchunked\r\n", [b"400"]),
    ],
)
def test_request_that_two_parsers_would_split_differently_gets_one_answer_and_the_connection_ends(
    service: Service, framing: bytes, statuses: list[bytes]
) -> None:
    request = b"POST /v1/pets HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n0\r\n\r\n" + INNER
    answer = rest(connect(service, request, timeout=10))
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", answer) == statuses
