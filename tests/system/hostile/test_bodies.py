"""Bodies that don't arrive completely, in time, or at a reasonable size."""

import json
import re
import socket
import time
from contextlib import ExitStack
from functools import partial
from select import select

import pytest

from tests.support import raw_http
from tests.support.live import Service
from tests.support.raw_http import parse_response, read_until_closed
from tests.system.hostile.conftest import IN_ONE_MODE

CLIENT_SECONDS = 5
connect = partial(raw_http.connect, timeout=CLIENT_SECONDS + 8)
HOLDERS = 200  # 12 MiB: more than a worker's budget for bodies in transit.


@pytest.fixture(scope="module")
def service(short_timeout_service: Service) -> Service:
    return short_timeout_service


@pytest.fixture(scope="module")
def key(service: Service) -> str:
    return service.issue_high_limit_key("Bodies")


def head(path: str, framing: str, key: str = "", method: str = "POST", extra: str = "") -> bytes:
    """The head of a request with a JSON body."""
    bearer = f"Authorization: Bearer {key}\r\n" if key else ""
    lines = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{lines}{bearer}{extra}{framing}\r\n\r\n".encode()


def get_names(service: Service, key: str) -> set[str]:
    with service.client(key) as client:
        return {pet["name"] for pet in client.get("/pets?limit=100").json()}


PET = b'{"name": "%s", "categoryId": 1}'
TRUNCATED_BODIES = {
    "less than Content-Length": ("Content-Length: 500", PET),
    "Content-Length beyond any integer's sign": (f"Content-Length: {2**63}", PET),
    "no last chunk": ("Transfer-Encoding: chunked", b"%x\r\n" + PET + b"\r\n"),
    "half a chunk": ("Transfer-Encoding: chunked", b"100\r\n" + PET),
    "no end of the last chunk": ("Transfer-Encoding: chunked", b"%x\r\n" + PET + b"\r\n0\r\n"),
    "a chunk without a size": ("Transfer-Encoding: chunked", b"%x\r\n" + PET + b"\r\nzz\r\n"),
}


@pytest.mark.parametrize("cut", TRUNCATED_BODIES)
def test_incomplete_body_is_not_processed(service: Service, key: str, cut: str) -> None:
    framing, form = TRUNCATED_BODIES[cut]
    name = re.sub("[^A-Za-z]", "", cut).encode()
    size = len(PET % name)
    body = form % ((size, name) if b"%x" in form else name)
    with connect(service, head("/v1/pets", framing, key), body) as connection:
        connection.shutdown(socket.SHUT_WR)
        status, headers, response = parse_response(read_until_closed(connection))
    assert status in {400, 413}
    assert json.loads(response)["status"] == status
    assert headers["x-request-id"]
    assert name.decode() not in get_names(service, key)


@pytest.mark.parametrize("framing", ["Content-Length: 34", "Transfer-Encoding: chunked"])
def test_complete_body_is_processed(service: Service, key: str, framing: str) -> None:
    body = PET % (b"Whole%d" % len(framing))
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if "chunked" in framing else body
    framing = framing if "chunked" in framing else f"Content-Length: {len(body)}"
    with connect(
        service, head("/v1/pets", framing, key, extra="Connection: close\r\n"), whole
    ) as connection:
        assert parse_response(read_until_closed(connection))[0] == 201


@pytest.mark.parametrize("length", ["-1", "+5", "5, 6", "0x5", "5\r\nContent-Length: 6", str(2**64), ""])
def test_malformed_content_length_is_a_400(service: Service, key: str, length: str) -> None:
    with connect(service, head("/v1/pets", f"Content-Length: {length}", key), PET) as connection:
        assert parse_response(read_until_closed(connection))[0] == 400


def test_key_is_checked_before_the_body_is_awaited(service: Service) -> None:
    for framing in ("Content-Length: 60000", "Transfer-Encoding: chunked"):
        with connect(service, head("/v1/pets", framing)) as connection:
            connection.settimeout(CLIENT_SECONDS / 2)
            status, headers, response = parse_response(connection.recv(65_536))
            assert (status, json.loads(response)["code"]) == (401, "missing_api_key")
            assert "x-ratelimit-limit" in headers


def test_client_rejected_early_may_send_its_body_and_continue(service: Service, key: str) -> None:
    body = b" " * 60_000
    with connect(service, head("/v1/pets", f"Content-Length: {len(body)}"), body) as connection:
        assert parse_response(connection.recv(65_536))[0] == 401
        connection.sendall(head("/v1/pets?limit=1", "Connection: close", key, "GET"))
        assert parse_response(read_until_closed(connection))[0] == 200


def test_rejected_client_may_send_a_small_body_late_and_continue(service: Service, key: str) -> None:
    with connect(service, head("/v1/pets", "Content-Length: 2")) as connection:
        assert select([connection], [], [], 0.2)[0] == []
        connection.sendall(b"{}")
        assert parse_response(connection.recv(65_536))[0] == 401
        connection.sendall(head("/v1/pets?limit=1", "Connection: close", key, "GET"))
        assert parse_response(read_until_closed(connection))[0] == 200


@pytest.mark.parametrize("caller", ["account", "anonymous"])
def test_missing_small_bodies_delay_no_other_request(service: Service, key: str, caller: str) -> None:
    pet = PET % b"Late"
    sender = key if caller == "account" else ""
    request = head("/v1/pets", f"Content-Length: {len(pet)}", sender, extra="Connection: close\r\n")
    with ExitStack() as stack:
        # More than a worker serves concurrently.
        holders = [stack.enter_context(connect(service, request, pet[:1])) for _ in range(600)]
        with service.client(key) as client:
            assert client.get("/pets?limit=1").status_code == 200
            assert client.post("/pets", json={"name": "Prompt", "categoryId": 1}).status_code == 201
        for holder in holders:
            holder.sendall(pet[1:])
        responses = {parse_response(read_until_closed(holder))[0] for holder in holders}
    # Together they are too many again.
    assert responses <= {503} | ({201} if caller == "account" else {401, 429})


@IN_ONE_MODE
def test_prompt_body_is_served_while_others_stall(service: Service, key: str) -> None:
    part = head("/v1/pets", "Content-Length: 65536", key) + b" " * 65_000
    with ExitStack() as stack:
        for _ in range(HOLDERS):
            stack.enter_context(connect(service, part))
        with service.client(key) as client:
            honest = b" " * 60_000 + b'{"name": "Honest", "categoryId": 1}'
            sent = client.post("/pets", content=honest, headers={"Content-Type": "application/json"})
        assert sent.status_code == 201


@IN_ONE_MODE
def test_anonymous_forms_take_no_budget_from_others(service: Service, key: str) -> None:
    """Many of them start while the prompt body is arriving."""
    form = head("/account/login/", "Content-Length: 65000") + b"x" * 64_000
    pet = b" " * 5_000 + b'{"name": "Halves", "categoryId": 1}'
    framing = f"Content-Length: {len(pet)}"
    with ExitStack() as stack:
        honest = stack.enter_context(
            connect(service, head("/v1/pets", framing, key, extra="Connection: close\r\n"), pet[:2_000])
        )
        for _ in range(HOLDERS):
            stack.enter_context(connect(service, form))
        assert select([honest], [], [], 0.5)[0] == []  # It has not been aborted.
        honest.sendall(pet[2_000:])
        assert parse_response(read_until_closed(honest))[0] == 201


def burst(service: Service, request: bytes) -> tuple[float, list[int]]:
    """Send it concurrently, the last bytes once all have started; return the seconds and the statuses."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(service)) for _ in range(3 * HOLDERS // 4)]
        began = time.monotonic()
        for part in (request[:-1], request[-1:]):
            for connection in connections:
                connection.sendall(part)
        took = time.monotonic() - began
        return took, [parse_response(read_until_closed(connection))[0] for connection in connections]


@IN_ONE_MODE
def test_many_concurrent_bodies_are_all_accepted(service: Service, key: str) -> None:
    """They exceed the budget, but none of their clients is slow."""
    pet = b" " * 65_000 + b'{"name": "Burst", "categoryId": 1}'
    request = head("/v1/pets", f"Content-Length: {len(pet)}", key, extra="Connection: close\r\n") + pet
    for _ in range(20):
        took, statuses = burst(service, request)
        if took < 0.5:  # Otherwise this machine made them slow: after a second they are aborted.
            break
    assert statuses == [201] * len(statuses)


def test_shed_request_gets_an_id_and_the_quota_headers(service: Service, key: str) -> None:
    """A worker's maximum of requests is in progress: all wait for PostgreSQL or for a thread."""
    with ExitStack() as stack:
        pipelined = [
            stack.enter_context(
                connect(service, head("/v1/pets?limit=100", "Connection: close", key, "GET"))
            )
            for _ in range(900)
        ]
        responses = [parse_response(read_until_closed(connection)) for connection in pipelined]
    for _, headers, _ in responses:
        assert headers["x-request-id"]
        assert headers["x-ratelimit-limit"]
