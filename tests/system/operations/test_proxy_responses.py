"""The deployed proxy in front of real instances interprets paths as they do, with the same responses."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from petstore.api.errors import RETRY_SECONDS, ErrorCode, build_error_body
from tests.support.large_file import LARGE_FILE, write_large_file
from tests.support.live import ROOT, live_service
from tests.support.migrated import migrated_server
from tests.support.postgresql import postgresql_server, programs
from tests.support.raw_http import parse_response, read_until_closed
from tests.support.servers import free_port, wait_until
from tests.support.skips import needs_program
from tests.system.operations import proxy

SLOW_READERS = 24  # More than one instance's slots for pages.

pytestmark = [
    needs_program(proxy.program(), "haproxy"),
    needs_program(programs(), "PostgreSQL's server"),
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """PostgreSQL, an instance on it, and the proxy; the second instance is down."""
    folder = tmp_path_factory.mktemp("proxy")
    with ExitStack() as stack:
        server = stack.enter_context(postgresql_server("fsync=off", copy_of=migrated_server()))
        environment = {"DATABASE_URL": server.url, "TRUSTED_PROXY_COUNT": "1"} | write_large_file(folder)
        service = stack.enter_context(live_service(folder, workers=1, **environment))
        port = free_port()
        instance = int(service.environment["PORT"])
        changes = proxy.SHORT_BODY
        stack.enter_context(proxy.haproxy(folder, instance, free_port(), port, changes))
        url = f"http://127.0.0.1:{port}"
        key = service.issue_high_limit_key("Behind a proxy")
        wait_until(lambda: httpx.get(f"{url}/readyz").raise_for_status())
        yield SimpleNamespace(server=server, service=service, port=port, url=url, key=key)


def ask(stage: Any, target: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send a request with exactly this target; return the status, headers and body."""
    lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    with socket.create_connection(("127.0.0.1", stage.port), timeout=15) as connection:
        connection.sendall("\r\n".join(lines).encode())
        return parse_response(read_until_closed(connection))


@pytest.mark.parametrize("target", ["/metrics", "/%6detrics", "/%6D%65trics", "/metrics%3f"])
def test_metrics_are_not_public_however_their_path_is_encoded(stage: Any, target: str) -> None:
    status, _, body = ask(stage, target)
    assert status == 404
    assert b"petstore_" not in body


@pytest.mark.parametrize(
    "target",
    ["/v1%2Fpets", "/v1%2fpets", "/static%2F..%2Fpets", "/v1/pets/%zz", "/%", "http://localhost/v1%2Fpets"],
)
def test_ambiguous_path_is_rejected(stage: Any, target: str) -> None:
    status, headers, body = ask(stage, target)
    assert (status, json.loads(body)) == (404, build_error_body(ErrorCode.RESOURCE_NOT_FOUND))
    assert headers["x-request-id"]


def test_encoded_path_of_the_api_is_routed_to_the_api(stage: Any) -> None:
    assert ask(stage, "/%761/pets?limit=1", f"Authorization: Bearer {stage.key}")[0] == 200

    def is_logged() -> bool:
        lines = (stage.service.folder / "haproxy.log").read_text().splitlines()
        return any("/%761/pets" in line and " instances/a " in line for line in lines)

    wait_until(is_logged, seconds=10)


def test_one_request_id_goes_through_proxy_and_instance(stage: Any) -> None:
    assert ask(stage, "/v1/pets", "X-Request-Id: mine-1")[1]["x-request-id"] == "mine-1"
    assert ask(stage, "/v1/pets", "X-Request-Id: not well formed")[1]["x-request-id"] != "not well formed"
    wait_until(lambda: stage.service.log().index('"mine-1"'), seconds=10)


def test_slow_body_gets_the_documented_408_from_the_proxy(stage: Any) -> None:
    head = "POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: slow\r\nContent-Length: 9\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", stage.port), timeout=15) as connection:
        connection.sendall(head.encode())
        status, headers, body = parse_response(read_until_closed(connection))
    assert (status, json.loads(body)) == (408, build_error_body(ErrorCode.REQUEST_TIMEOUT))
    assert (headers["connection"], headers["x-request-id"]) == ("close", "slow")
    assert headers["x-ratelimit-limit"] == headers["x-ratelimit-remaining"] == "300"


def test_slow_readers_of_files_occupy_no_slot_of_a_page(stage: Any) -> None:
    with ExitStack() as stack:
        for _ in range(SLOW_READERS):
            slow = stack.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", stage.port))
            slow.sendall(f"GET {LARGE_FILE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert slow.recv(15) == b"HTTP/1.1 200 OK"
        assert httpx.get(f"{stage.url}/docs", timeout=10).status_code == 200


def test_only_files_are_compressed(stage: Any) -> None:
    style = httpx.get(f"{stage.url}/static/petstore/site.css")  # httpx accepts gzip.
    assert style.headers["content-encoding"] == "gzip"
    assert style.text == (ROOT / "petstore/static/petstore/site.css").read_text()
    for path in ("/", "/v1/pets"):
        response = httpx.get(stage.url + path, headers={"Authorization": f"Bearer {stage.key}"})
        assert "content-encoding" not in response.headers


def test_pages_and_401_are_served_while_postgresql_is_down(stage: Any) -> None:
    stage.server.stop()
    try:
        # The proxy has detected that no instance is ready.
        log = stage.service.folder / "haproxy.log"
        wait_until(lambda: "backend 'instances' has no server" in log.read_text(), seconds=15)
        assert httpx.get(f"{stage.url}/docs").status_code == 200
        anonymous = httpx.get(f"{stage.url}/v1/pets")
        assert (anonymous.status_code, anonymous.json()["code"]) == (401, "missing_api_key")
        known = httpx.get(f"{stage.url}/v1/pets", headers={"Authorization": f"Bearer {stage.key}"})
        assert (known.status_code, known.json()["code"]) == (503, "service_unavailable")
        assert known.headers["x-request-id"]
    finally:
        stage.server.start()


def test_responses_of_the_proxy_itself_have_the_headers_of_the_api(tmp_path: Path) -> None:
    port = free_port()
    with proxy.haproxy(tmp_path, free_port(), free_port(), port):
        response = httpx.get(f"http://127.0.0.1:{port}/v1/pets", headers={"X-Request-Id": "sent-1"})
    assert (response.status_code, response.json()) == (503, build_error_body(ErrorCode.SERVICE_UNAVAILABLE))
    assert (response.headers["content-type"], response.headers["cache-control"]) == (
        "application/json",
        "no-store",
    )
    assert response.headers["retry-after"] == str(RETRY_SECONDS)
    assert response.headers["x-request-id"] == "sent-1"
    assert response.headers["x-ratelimit-limit"] == response.headers["x-ratelimit-remaining"] == "300"
    assert int(response.headers["x-ratelimit-reset"]) > 1_700_000_000
