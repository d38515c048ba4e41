"""Some hundred hostile requests, the same each time: no 5xx, no hang, no key in a log; others are served.

`python -m tests.system.hostile --requests 100000` sends many more.
"""

import re
import socket
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from accounts import key_text
from tests.support.live import Service, live_service
from tests.support.servers import RedisServer
from tests.system.hostile.report import attack, report
from tests.system.hostile.sending import Findings


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


@pytest.mark.parametrize(
    ("findings", "log", "bad"),
    [
        (Findings(sent=1), "a line", False),
        (Findings(sent=1), f"a line with {key_text.make('live', '00000000').text}", True),
        (Findings(sent=1), "Traceback (most recent call last):", True),
        (Findings(sent=1, hangs=[b"GET /"]), "", True),
        (Findings(sent=1, not_served=["nothing"]), "", True),
        (Findings(sent=2, statuses=Counter([200, 503])), "", True),
    ],
    ids=["nothing", "a key", "a traceback", "a hang", "somebody not served", "a 5xx"],
)
def test_report_says_what_is_bad(findings: Findings, log: str, bad: bool) -> None:
    assert report(findings, log, 1)[1] is bad


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
    port = urlsplit(service.url).port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/pets HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n0\r\n\r\n" + INNER
        )
        answer = b""
        while part := connection.recv(65_536):  # Until the server closes: a hang is a time-out error.
            answer += part
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", answer) == statuses
