"""The deployed proxy rejects what the instances can't serve, with the service's own errors."""

import os
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from petstore.api.errors import ErrorCode
from tests.support.servers import free_port, wait_until
from tests.support.skips import needs_program
from tests.system.operations import proxy

INSTANCE_SLOTS = 128  # Concurrent requests to an instance.
QUEUE = 32  # Requests that wait in the proxy.
EXCESS = 50
READY = b'{"status": "ok"}'
CONNECTIONS = 500  # The limit of a client.
TOLERANCE = os.cpu_count() or 1  # Each proxy thread may admit one more before the others count it.

pytestmark = needs_program(proxy.program(), "haproxy")


@contextmanager
def waiting_instance(release: threading.Event) -> Iterator[int]:
    """Yield the port of a server that is ready, but serves nothing else until the event is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = READY if self.path == "/readyz" else b""
            if not body:
                release.wait(30)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if body:
                self.wfile.write(body)

        def log_request(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 2 * INSTANCE_SLOTS

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def release() -> threading.Event:
    return threading.Event()


@contextmanager
def proxied(
    folder: Path, changes: proxy.Changes, release: threading.Event, *, ready: bool = True
) -> Iterator[tuple[int, int]]:
    """Yield the ports of the proxy and of its metrics, in front of two instances, or of none.

    The instances wait for `release`.
    """
    port, metrics_port = free_port(), free_port()
    with ExitStack() as stack:
        a, b = (stack.enter_context(waiting_instance(release)) if ready else free_port() for _ in "ab")
        stack.enter_context(proxy.haproxy(folder, a, b, port, changes, metrics_port=metrics_port))
        stack.callback(release.set)
        yield port, metrics_port


@pytest.fixture
def port(tmp_path: Path, release: threading.Event) -> Iterator[int]:
    """The port of the proxy in front of two instances, which wait for `release`."""
    with proxied(tmp_path, proxy.LONG_QUEUE, release) as (port, _):
        yield port


GET = b"GET /v1/pets HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def ask(port: int, request: bytes = GET, source: str = "127.0.0.1") -> socket.socket:
    """Send a request, and leave the connection open."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))
    try:
        connection.sendall(request)
    except BaseException:  # The proxy may have reset it.
        connection.close()
        raise
    connection.setblocking(False)
    return connection


def has_response(connection: socket.socket) -> bool:
    """Whether a response has started."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def status(connection: socket.socket) -> bytes:
    """Wait for the response's status."""
    connection.settimeout(30)
    return connection.recv(65_536).split()[1]


def excess_is_rejected(connections: list[socket.socket]) -> bool:
    return sum(map(has_response, connections)) >= EXCESS - TOLERANCE


def test_slow_clients_occupy_no_slot_of_an_instance(port: int, release: threading.Event) -> None:
    release.set()
    head = b"POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(2 * INSTANCE_SLOTS + QUEUE + EXCESS):
            stack.enter_context(ask(port, head))
        assert httpx.get(f"http://127.0.0.1:{port}/v1/pets").status_code == 200


def test_customers_cannot_occupy_the_slots_of_staff(port: int) -> None:
    page = GET.replace(b"/v1/pets", b"/account/keys/")
    with ExitStack() as stack:
        for _ in range(EXCESS):
            stack.enter_context(ask(port, page))
        assert httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=10).status_code == 200


def rejections_in(log: Path, status: int) -> int:
    return len(re.findall(rf" public \S+ \S+ {status} .* PR-- ", log.read_text()))


def test_overload_is_rejected_at_once_counted_and_logged_and_the_rest_is_served(
    tmp_path: Path, release: threading.Event
) -> None:
    """Pages are still served, and only some rejections are logged."""
    with (
        proxied(tmp_path, proxy.LONG_QUEUE, release) as (port, metrics_port),
        ExitStack() as stack,
    ):
        connections = [stack.enter_context(ask(port)) for _ in range(2 * INSTANCE_SLOTS + QUEUE + EXCESS)]
        wait_until(lambda: excess_is_rejected(connections))
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        counted = proxy.read_metric(metrics_port, "haproxy_backend_requests_denied_total", "overloaded")
        assert EXCESS - TOLERANCE <= counted <= EXCESS
        log = tmp_path / "haproxy.log"
        wait_until(lambda: rejections_in(log, 503) >= 1)
        assert rejections_in(log, 503) < EXCESS
        release.set()
        statuses = Counter(status(connection) for connection in connections)
        assert set(statuses) == {b"200", b"503"}
        assert EXCESS - TOLERANCE <= statuses[b"503"] <= EXCESS


@contextmanager
def running(tmp_path: Path, changes: proxy.Changes) -> Iterator[int]:
    """Yield the port of the proxy, with these changes, in front of instances that respond at once."""
    release = threading.Event()
    release.set()
    with proxied(tmp_path, changes, release) as (port, _):
        yield port


def test_silent_connections_of_one_address_do_not_block_others(tmp_path: Path) -> None:
    with running(tmp_path, {"maxconn 4000": f"maxconn {CONNECTIONS + 20}"}) as port, ExitStack() as stack:
        for _ in range(CONNECTIONS + 100):
            with suppress(ConnectionError):  # Connections above the limit are reset.
                stack.enter_context(ask(port, b"", "127.0.0.2"))
        with ask(port) as other:
            other.settimeout(5)  # Half of the timeout of a silent connection.
            assert other.recv(100).split()[1] == b"200"


def test_one_address_may_open_as_many_connections_as_an_office_needs(tmp_path: Path) -> None:
    request = GET.replace(b"Connection: close\r\n", b"")
    with running(tmp_path, {}) as port, ExitStack() as stack:
        for _ in range(CONNECTIONS):
            assert status(stack.enter_context(ask(port, request))) == b"200"
        with pytest.raises(ConnectionError), ask(port, request) as one_more:  # noqa: PT012  Which call fails varies.
            one_more.settimeout(5)
            if not one_more.recv(1):
                raise ConnectionResetError


def get_from(port: int, client: str) -> httpx.Response:
    """Send a request whose client address the proxy takes from a header."""
    return httpx.get(f"http://127.0.0.1:{port}/v1/pets", headers={"X-Client": client})


ADDRESS_FROM_HEADER = {"connection track-sc0 src": "content track-sc0 req.hdr_ip(X-Client)"}


# A client, another address with which it shares its limit, and one with which it does not.
NEIGHBOURS = [
    ("203.0.113.1", "203.0.113.1", "203.0.113.2"),
    ("::ffff:203.0.113.3", "203.0.113.3", "::ffff:203.0.113.4"),  # IPv4-mapped.
    ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"),
]


def test_requests_are_limited_by_ipv4_address_or_ipv6_64_prefix(tmp_path: Path) -> None:
    changes = ADDRESS_FROM_HEADER | {"gpc0_rate ge 5000": "gpc0_rate ge 3"}
    with running(tmp_path, changes) as port:
        for client, same, other in NEIGHBOURS:
            assert [get_from(port, client).status_code for _ in range(3)] == [200] * 3
            response = get_from(port, same)
            assert get_from(port, other).status_code == 200
            assert response.status_code == 429
            assert response.json()["code"] == ErrorCode.RATE_LIMIT_EXCEEDED.value
            assert response.headers["retry-after"] == "10"
            assert response.headers["x-ratelimit-remaining"] == "0"
            assert response.headers["x-request-id"]


def test_pages_have_a_limit_of_their_own_for_each_address(tmp_path: Path) -> None:
    changes = {"gpc1_rate(2s)": "gpc1_rate(10s)", "gpc1_rate ge 80": "gpc1_rate ge 2"}
    with running(tmp_path, changes) as port:
        paths = ["/docs", "/account/x/", "/v1/pets", "/nothing", "/v1/pets", "/static/x"]
        statuses = [httpx.get(f"http://127.0.0.1:{port}{path}").status_code for path in paths]
    assert statuses == [200, 200, 200, 429, 200, 200]


def test_client_above_its_limit_is_throttled_to_it_and_starves_no_other(tmp_path: Path) -> None:
    """Clients that share its address also continue within the limit."""
    changes = {"gpc0_rate(10s)": "gpc0_rate(1s)", "gpc0_rate ge 5000": "gpc0_rate ge 20"}
    statuses: Counter[int] = Counter()
    with running(tmp_path, changes) as port, httpx.Client() as client:
        end = time.monotonic() + 30
        while time.monotonic() < end and (statuses[200] <= 45 or not statuses[429]):
            statuses[client.get(f"http://127.0.0.1:{port}/v1/pets").status_code] += 1
    assert statuses[200] > 45  # More than two seconds allow.
    assert statuses[429]


SECRET = "0123456789abcdefghijklmnopqrstuvwxyzAB"
KEY = f"psk_live_AbcdefghIjklmn_{SECRET}"
TOKEN = f"d0ocbh-{SECRET[:32]}"


LINES = [
    f"GET /admin/accounts/apikey/?q={KEY} HTTP/1.1",
    f"GET /account/password/reset/1-2-{TOKEN}/?next={TOKEN} HTTP/1.1",
    f"GET /account%2Fpassword%2Freset%2F1-2-{TOKEN} HTTP/1.1", f"GET /v1/pets/{KEY};{KEY} HTTP/1.1",
    f"GET /v1/{KEY}/{KEY} HTTP/1.1", f"GET /v1/%70sk_live_{KEY[9:]} HTTP/1.1",
    f"GET /v1/%2570sk_live_{KEY[9:]} HTTP/1.1", f"GET /v1/\x80{KEY} HTTP/1.1", f"GET /#{KEY} HTTP/1.1",
    f"GET http://{KEY}:{KEY}@localhost/{KEY} HTTP/1.1", f"GET http://localhost/{KEY}?{KEY} HTTP/1.1",
    f"GET {KEY} HTTP/1.1", f"GET /{KEY}", f"GET / {KEY} HTTP/1.1", f"GET / HTTP/{KEY}", f"{KEY} / HTTP/1.1",
    f"{SECRET.upper()} / HTTP/1.1", f"CONNECT {KEY}:443 HTTP/1.1", f"{KEY}",
    f"GET / HTTP/1.1\r\nHost: {KEY}\r\nReferer: https://localhost/{TOKEN}", f"GET / HTTP/1.1\r\n{KEY} x: 1",
    f"GET / HTTP/1.1\r\nTransfer-Encoding: {KEY}\r\nCookie: {KEY}",
]  # fmt: skip


def test_log_has_methods_but_no_keys_and_no_link_tokens(tmp_path: Path) -> None:
    others = [GET.replace(b"GET", method) for method in (b"GET", b"PATCH", b"PURGE")]
    malformed = [
        f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1") for line in LINES
    ]
    with running(tmp_path, {}) as port:
        for request in [*malformed, *others]:
            with ask(port, request.replace(b"/v1/pets ", b"/v1/pets?limit=1 ")) as one:
                status(one)
        log = tmp_path / "haproxy.log"
        wait_until(lambda: logged(log) == len(malformed) + len(others), seconds=10)
    for method in ("GET", "PATCH", "PURGE"):
        assert f'"{method} /v1/pets HTTP/1.1"' in log.read_text()
    assert SECRET[:8].lower() not in log.read_text().lower()


def logged(log: Path) -> int:
    return sum(" public" in line for line in log.read_text().splitlines())
