"""The proxy that is deployed refuses what the instances can't do, in the service's own words."""

import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from petstore.api.errors import RETRY_SECONDS, ErrorCode, error_body
from tests.support.servers import free_port, wait_until
from tests.support.skips import needs_program
from tests.system.operations import proxy

AT_ONCE = 128  # Requests to an instance.
QUEUE = 32  # Requests that wait in the proxy.
MORE = 50
UNCOUNTED = os.cpu_count() or 1  # Each of its threads may let in one that another has not counted yet.

pytestmark = needs_program(proxy.program(), "haproxy")


@contextmanager
def instance_that_waits(go_on: threading.Event) -> Iterator[int]:
    """Yield the port of a server that is ready, and answers nothing else until it may."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/readyz":
                go_on.wait(30)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 2 * AT_ONCE

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def go_on() -> threading.Event:
    return threading.Event()


@pytest.fixture
def port(tmp_path: Path, go_on: threading.Event) -> Iterator[int]:
    """The port of the proxy before two instances, which wait until they may `go_on`."""
    chosen = free_port()
    with ExitStack() as stack:
        a, b = (stack.enter_context(instance_that_waits(go_on)) for _ in "ab")
        changes = proxy.IN_THE_CLEAR | proxy.LONG_QUEUE
        stack.enter_context(proxy.haproxy(tmp_path, a, b, chosen, changes))
        stack.callback(go_on.set)
        yield chosen


GET = b"GET /v1/pets HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def ask(port: int, request: bytes = GET) -> socket.socket:
    """Send a request, and return the connection."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(request)
    connection.setblocking(False)
    return connection


def answered(connection: socket.socket) -> bool:
    """Tell whether an answer has begun to come."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def status(connection: socket.socket) -> bytes:
    """Wait for the answer, and return its status."""
    connection.settimeout(30)
    return connection.recv(65_536).split()[1]


def assert_refused(asked: list[socket.socket]) -> None:
    assert sum(map(answered, asked)) >= MORE - UNCOUNTED


def test_without_an_instance_it_says_what_the_service_would(tmp_path: Path) -> None:
    port = free_port()
    with proxy.haproxy(tmp_path, free_port(), free_port(), port, proxy.IN_THE_CLEAR):
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/pets")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == error_body(ErrorCode.SERVICE_UNAVAILABLE)
    assert answer.headers["retry-after"] == str(RETRY_SECONDS)
    assert answer.headers["cache-control"] == "no-store"


def test_slow_clients_take_no_place_from_others(port: int, go_on: threading.Event) -> None:
    go_on.set()
    head = b"POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(2 * AT_ONCE + QUEUE + MORE):
            stack.enter_context(ask(port, head))
        assert httpx.get(f"http://127.0.0.1:{port}/v1/pets").status_code == 200


def test_pages_are_served_while_the_api_is_overloaded(port: int) -> None:
    with ExitStack() as stack:
        asked = [stack.enter_context(ask(port)) for _ in range(2 * AT_ONCE + QUEUE + MORE)]
        wait_until(lambda: assert_refused(asked))
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200


def test_more_than_the_instances_can_do_is_refused_at_once_and_the_rest_is_done(
    port: int, go_on: threading.Event
) -> None:
    with ExitStack() as stack:
        asked = [stack.enter_context(ask(port)) for _ in range(2 * AT_ONCE + QUEUE + MORE)]
        wait_until(lambda: assert_refused(asked))
        go_on.set()
        statuses = Counter(status(connection) for connection in asked)
        assert set(statuses) == {b"200", b"503"}
        assert MORE - UNCOUNTED <= statuses[b"503"] <= MORE
