"""One webhook is sent safely to any receiver (D52, D55)."""

import gzip
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.client import HTTPException
from ipaddress import ip_network
from pathlib import Path
from select import select
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from accounts.webhooks.sender import (
    MAX_RESPONSE_BYTES,
    Failure,
    Outcome,
    Sender,
    Stream,
    parse_retry_after,
)
from accounts.webhooks.targets import Policy
from tests.support.receiver import Receiver, build_client_context, read_request, receiving, respond

TLS = build_client_context()
LOCAL = Policy((ip_network("127.0.0.1/32"),))
SHORT = 0.25  # Seconds.
BODY, HEADERS = b'{"id":1}', {"webhook-id": "evt_1", "User-Agent": "x"}


def resolve_to(*addresses: str) -> Any:
    return lambda host, port, **_: [(socket.AF_INET, 1, 6, "", (address, port)) for address in addresses]


def resolve_in_turn(*addresses: str) -> Any:
    """Resolve to another address each time, and to none after the last."""
    answers = iter(addresses)
    return lambda host, port, **_: resolve_to(next(answers))(host, port)


def send(url: str, policy: Policy = LOCAL, *, timeout: float = 5.0) -> Outcome:
    return Sender(url, policy, TLS).post(BODY, HEADERS, timeout=timeout)


@pytest.fixture
def canary() -> Iterator[Receiver]:
    """A receiver that nothing may reach."""
    with receiving(respond()) as receiver:
        yield receiver
        assert receiver.connections == 0


# --- What is sent


def test_body_and_headers_arrive_as_they_are() -> None:
    with receiving(respond(204)) as receiver:
        outcome = send(f"http://127.0.0.1:{receiver.port}/a//b?c=d")
    assert (outcome.error, outcome.status, outcome.text) == (None, 204, "")
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /a//b?c=d HTTP/1.1"
    assert sorted(lines[1:]) == [
        "Accept-Encoding: identity", "Connection: close", "Content-Length: 8",
        f"Host: 127.0.0.1:{receiver.port}", "User-Agent: x", "webhook-id: evt_1",
    ]  # fmt: skip
    assert body == BODY


def test_certificate_and_sni_are_those_of_the_name() -> None:
    policy = Policy(LOCAL.allowed_networks, resolver=resolve_to("127.0.0.1"))
    with receiving(respond(), tls_name="hooks.example") as receiver:
        for host in ("hooks.example", "hooks.example."):
            assert send(f"https://{host}:{receiver.port}/", policy).error is None
        for host in ("other.example", "127.0.0.1"):
            assert send(f"https://{host}:{receiver.port}/", policy).error == Failure.TLS
        untrusted = Sender(f"https://hooks.example:{receiver.port}/", policy)
        assert untrusted.post(BODY, HEADERS).error == Failure.TLS
    names = ["hooks.example", "hooks.example", "other.example", None, "hooks.example"]
    assert receiver.server_names == names
    assert len(receiver.requests) == 2


def test_only_2xx_succeeds_and_redirects_are_not_followed(canary: Receiver) -> None:
    for status in (200, 299, 301, 307, 400, 503):
        with receiving(respond(status, b"text", Location=f"http://127.0.0.1:{canary.port}/")) as receiver:
            outcome = send(f"http://127.0.0.1:{receiver.port}/")
        assert (outcome.status, outcome.text, receiver.connections) == (status, "text", 1)
        assert outcome.error == (None if status < 300 else Failure.STATUS)


def test_proxy_of_the_environment_is_not_used(canary: Receiver, monkeypatch: Any) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
    with receiving(respond()) as receiver:
        assert send(f"http://127.0.0.1:{receiver.port}/").status == 200


# --- Where it is sent


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1.", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "127.1",
        "127.0.1", "017700000001", "0", "0.0.0.0", "localhost", "localhost.", "LOCALHOST", "[::1]", "[::]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[0:0:0:0:0:0:0:1]",
        "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fec0::1]",
        "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021",
        "\u2460\u2461\u2466.0.0.1", "\u24db\u24de\u24d2alhost", "169.254.169.254", "10.0.0.1", "[fd00::1]",
    ],
)  # fmt: skip
def test_no_notation_reaches_a_forbidden_address(host: str, canary: Receiver) -> None:
    for scheme in ("https", "http"):
        try:
            outcome = send(f"{scheme}://{host}:{canary.port}/", Policy(), timeout=1)
        except ValueError:  # Such a URL can't be saved.
            continue
        assert outcome.error in {Failure.ADDRESS, Failure.NAME}


def test_changing_name_is_resolved_once_and_only_judged_addresses_are_reached() -> None:
    policy = Policy(LOCAL.allowed_networks, resolver=resolve_in_turn("127.0.0.1", "127.0.0.2"))
    with receiving(respond()) as receiver:
        assert send(f"http://rebinding.example:{receiver.port}/", policy).status == 200
        assert send(f"http://rebinding.example:{receiver.port}/", policy).error == Failure.ADDRESS
        assert receiver.connections == 1


def test_peer_must_be_the_judged_address(canary: Receiver) -> None:
    """Connecting to 0.0.0.0 reaches 127.0.0.1."""
    policy = Policy((ip_network("0.0.0.0/32"),))
    with receiving(respond()) as receiver:
        assert send(f"http://0.0.0.0:{receiver.port}/", policy).error == Failure.ADDRESS
    assert receiver.requests in ([], [b""])


def test_other_addresses_are_tried_if_the_kernel_or_the_host_of_one_does_not_respond() -> None:
    networks = (*LOCAL.allowed_networks, ip_network("127.0.0.9/32"))
    unknown = (socket.AF_UNIX + 1000, 1, 6, "", ("127.0.0.1", 1))  # No socket can have this family.
    with receiving(respond()) as receiver:
        known = resolve_to("127.0.0.9", "127.0.0.1")("", receiver.port)
        policy = Policy(networks, resolver=lambda *_, **__: [unknown, *known])
        assert send(f"http://three.example:{receiver.port}/", policy).status == 200


def test_few_of_many_addresses_are_tried() -> None:
    """Otherwise a name could have the service scan the ports of others."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    addresses = [f"127.0.0.{number}" for number in range(1, 100)]
    with receiving(respond()) as receiver:
        at = [*resolve_to(*addresses)("", port), *resolve_to("127.0.0.1")("", receiver.port)]
        policy = Policy(tuple(map(ip_network, addresses)), resolver=lambda *_, **__: at)
        assert send(f"http://many.example:{receiver.port}/", policy).error == Failure.CONNECTION
        assert receiver.connections == 0


# --- Kept connections


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def respond_repeatedly(*responses: bytes) -> Any:
    """Respond to several requests on each connection, then close it without saying so."""

    def handle(connection: Any, request: bytes) -> None:
        for response in responses[:-1]:
            connection.sendall(response)
            read_request(connection)
        connection.sendall(responses[-1])

    return handle


def post_repeatedly(url: str, policy: Policy, count: int, *, timeout: float = 5.0) -> list[Outcome]:
    sender = Sender(url, policy, TLS)
    return [sender.post(BODY, HEADERS, keep=left > 1, timeout=timeout) for left in range(count, 0, -1)]


@pytest.mark.parametrize("tls_name", ["", "hooks.example"])
def test_connection_is_kept_and_a_webhook_is_sent_again_if_the_receiver_closed_it(tls_name: str) -> None:
    policy = Policy(LOCAL.allowed_networks, resolver=resolve_to("127.0.0.1"))
    with receiving(respond_repeatedly(OK, OK), tls_name=tls_name) as receiver:
        url = f"http{'s' if tls_name else ''}://hooks.example:{receiver.port}/"
        outcomes = post_repeatedly(url, policy, 5)
    assert [(outcome.error, outcome.status, outcome.text) for outcome in outcomes] == [
        (None, 200, "ok")
    ] * 5
    assert receiver.connections == 3


def test_each_new_connection_is_to_an_address_that_is_judged_anew() -> None:
    policy = Policy(LOCAL.allowed_networks, resolver=resolve_in_turn("127.0.0.1", "127.0.0.2"))
    with receiving(respond_repeatedly(OK, OK)) as receiver:
        outcomes = post_repeatedly(f"http://rebinding.example:{receiver.port}/", policy, 3)
    assert [outcome.error for outcome in outcomes] == [None, None, Failure.ADDRESS]
    assert receiver.connections == 1


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000,
    ],
    ids=["close", "HTTP/1.0", "longer than what is read"],
)
def test_connection_is_not_kept_after_these_responses(response: bytes) -> None:
    with receiving(respond_repeatedly(response, response)) as receiver:
        outcomes = post_repeatedly(f"http://127.0.0.1:{receiver.port}/", LOCAL, 2)
    assert [outcome.status for outcome in outcomes] == [200, 200]
    assert receiver.connections == 2


def test_kept_connection_has_a_deadline_for_each_exchange_and_is_closed_at_its_end() -> None:
    def handle(connection: Any, request: bytes) -> None:
        connection.sendall(OK)
        wait(connection, request)

    with receiving(handle) as receiver:
        outcomes = post_repeatedly(f"http://127.0.0.1:{receiver.port}/", LOCAL, 3, timeout=SHORT)
    assert [outcome.error for outcome in outcomes] == [None, Failure.TIMEOUT, None]
    assert receiver.connections == 2


# --- Through a proxy


def tunnel(receiver: Receiver) -> Any:
    def connect(connection: Any, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with socket.create_connection(("127.0.0.1", receiver.port)) as upstream:
            pump(connection, upstream)

    return connect


def pump(one: Any, other: Any) -> None:
    while True:
        for sock in select([one, other], [], [])[0]:
            if not (data := sock.recv(65536)):
                return
            (other if sock is one else one).sendall(data)


def test_configured_proxy_resolves_names_and_tls_is_with_the_receiver() -> None:
    with receiving(respond(), tls_name="hooks.example") as receiver, receiving(tunnel(receiver)) as proxy:
        policy = Policy(proxy=f"127.0.0.1:{proxy.port}")
        assert send("https://hooks.example/x", policy).status == 200
        assert send("https://other.example/x", policy).error == Failure.TLS
        assert send("https://127.0.0.1/x", policy).error == Failure.ADDRESS
        assert send("https://2130706433/x", policy).error == Failure.ADDRESS
        assert send("http://hooks.example/x", policy).error == Failure.ADDRESS
    assert proxy.requests[0].startswith(b"CONNECT hooks.example:443 HTTP/1.")
    assert len(proxy.requests) == 2
    assert receiver.requests[0].startswith(b"POST /x HTTP/1.1\r\n")
    assert b"Host: hooks.example\r\n" in receiver.requests[0]


def test_proxy_may_be_an_ipv6_address_and_its_rejection_is_a_failed_connection() -> None:
    names = []

    def resolve(host: str, port: int, **_: Any) -> Any:
        names.append(host)
        return [] if host == "hooks.example" else resolve_to("127.0.0.1")(host, port)

    with receiving(respond(403)) as proxy:
        outcome = send("https://hooks.example/", Policy(proxy=f"[::1]:{proxy.port}", resolver=resolve))
    assert names == ["hooks.example", "::1"]
    assert (outcome.error, outcome.status) == (Failure.CONNECTION, None)


# --- What comes back


def drip(data: bytes) -> Any:
    """Send a byte at a time, faster than any timeout of a single read."""

    def handle(connection: Any, request: bytes) -> None:
        index = 0
        while True:
            connection.sendall(data[index % len(data) : index % len(data) + 1])
            index += 1
            connection.settimeout(0.02)
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                pass

    return handle


def wait(connection: Any, request: bytes) -> None:
    while connection.recv(65536):
        pass


def endless(head: bytes, part: bytes) -> Any:
    def handle(connection: Any, request: bytes) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(part)

    return handle


@pytest.mark.parametrize(
    ("handle", "scheme", "options"),
    [
        (wait, "http", {}),
        (wait, "https", {"reads": False}),
        (drip(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000), "http", {}),
        (drip(b"HTTP/1.1 100 Continue\r\n\r\n"), "http", {}),
        (drip(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000), "https", {"tls_name": "hooks.example"}),
    ],
    ids=["silent", "no handshake", "slow headers", "slow 100s", "slow TLS"],
)
def test_deadline_covers_the_whole_exchange(handle: Any, scheme: str, options: dict[str, Any]) -> None:
    policy = Policy(LOCAL.allowed_networks, resolver=resolve_to("127.0.0.1"))
    started_at = monotonic()
    with receiving(handle, **options) as receiver:
        outcome = send(f"{scheme}://hooks.example:{receiver.port}/", policy, timeout=SHORT)
    assert (outcome.error, outcome.status) == (Failure.TIMEOUT, None)
    assert SHORT <= monotonic() - started_at < 3
    assert SHORT * 1000 <= outcome.milliseconds < 3000


def flood_with_tickets(connection: Any, request: bytes) -> None:
    """Send session tickets of TLS 1.3 for half a minute, which OpenSSL reads without returning any data."""

    def expand(label: bytes, length: int) -> bytes:
        info = bytes([0, length, 6 + len(label)]) + b"tls13 " + label + b"\0"
        return HKDFExpand(SHA384(), length, info).derive(secret)

    assert connection.cipher()[0] == "TLS_AES_256_GCM_SHA384"
    keys = Path(connection.context.keylog_filename).read_text()
    secret = bytes.fromhex(keys.partition("SERVER_TRAFFIC_SECRET_0 ")[2].split()[1])
    cipher, nonce = AESGCM(expand(b"key", 32)), int.from_bytes(expand(b"iv", 12), "big")
    ticket = b"\x04\0\0\x0f" + b"\0\0\x0e\x10" + b"\0\0\0\0" + b"\x01n" + b"\0\x01t" + b"\0\0"
    content = ticket * 800 + b"\x16"  # A record of the handshake.
    header = b"\x17\x03\x03" + (len(content) + 16).to_bytes(2, "big")
    ends_at, number = monotonic() + 30, 0
    while monotonic() < ends_at:
        record = header + cipher.encrypt((nonce ^ number).to_bytes(12, "big"), content, header)
        socket.socket.sendall(connection, record)  # Not through the TLS of the server.
        number += 1


def test_flood_of_session_tickets_is_cut_off(tmp_path: Path) -> None:
    policy = Policy(LOCAL.allowed_networks, resolver=resolve_to("127.0.0.1"))
    with receiving(flood_with_tickets, tls_name="hooks.example") as receiver:
        context: Any = receiver._context
        context.num_tickets, context.keylog_filename = 0, str(tmp_path / "keys")
        outcome = send(f"https://hooks.example:{receiver.port}/", policy)
    assert (outcome.error, outcome.status) == (Failure.CONNECTION, None)  # No TIMEOUT.


def test_receiver_cannot_choose_an_expensive_key_exchange() -> None:
    """Finite fields take up to 600 ms of CPU time, P-256 takes 1 ms."""
    assert {cipher["kea"] for cipher in TLS.get_ciphers()} == {"kx-ecdhe", "kx-any"}  # TLS 1.3 has any.
    policy = Policy(LOCAL.allowed_networks, resolver=resolve_to("127.0.0.1"))
    for group, error in (("prime256v1", None), ("secp384r1", Failure.TLS)):
        with receiving(respond(), tls_name="hooks.example") as receiver:
            context: Any = receiver._context
            context.set_ecdh_curve(group)
            assert send(f"https://hooks.example:{receiver.port}/", policy).error == error


@pytest.mark.parametrize("status", [100, 102])
def test_interim_responses_are_skipped(status: int) -> None:
    interim = f"HTTP/1.1 {status} Wait\r\nLink: </a>\r\n\r\n".encode()
    with receiving(respond_repeatedly(interim + interim + OK, interim + OK)) as receiver:
        outcomes = post_repeatedly(f"http://127.0.0.1:{receiver.port}/", LOCAL, 2)
    assert [(outcome.status, outcome.text) for outcome in outcomes] == [(200, "ok")] * 2
    assert receiver.connections == 1


@pytest.mark.parametrize("begun", [b"", b"begun"])
def test_status_counts_even_if_the_body_does_not_end(begun: bytes) -> None:
    def handle(connection: Any, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + begun)
        (drip(b"x") if begun else wait)(connection, b"")

    with receiving(handle) as receiver:
        outcome = send(f"http://127.0.0.1:{receiver.port}/", timeout=SHORT)
    assert (outcome.error, outcome.status) == (None, 200)
    assert outcome.text[:5] == begun.decode()


@pytest.mark.parametrize(
    ("head", "part", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, (None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"a\r\n0123456789\r\n", (None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 9999, (None, 200)),
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 1000 + b"\r\n", (Failure.RESPONSE, None)),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", (Failure.RESPONSE, None)),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 65536, (Failure.RESPONSE, None)),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", (Failure.RESPONSE, None)),
        (b"", b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", (Failure.RESPONSE, None)),
        (b"", b"x" * 65536, (Failure.RESPONSE, None)),
    ],
    ids=["body", "chunks", "chunk", "headers", "many headers", "header", "100s", "103s", "status line"],
)
def test_endless_responses_are_cut_off(head: bytes, part: bytes, expected: Any) -> None:
    with receiving(endless(head, part)) as receiver:
        outcome = send(f"http://127.0.0.1:{receiver.port}/")
    assert (outcome.error, outcome.status) == expected
    assert len(outcome.text) <= 2048
    assert outcome.milliseconds < 4000


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 11,
        b"HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed; " + b"a*0*=';" * 2_400 + b"\r\n",
    ],
    ids=["103s", "parameters"],
)
def test_heads_that_are_expensive_to_parse_are_cut_off(head: bytes) -> None:
    with receiving(lambda connection, _: connection.sendall(head + OK)) as receiver:
        assert send(f"http://127.0.0.1:{receiver.port}/").error == Failure.RESPONSE


def test_response_in_tiny_parts_is_cut_off() -> None:
    sock = Mock(recv=Mock(side_effect=lambda size: b"x"[:size]))
    with pytest.raises(HTTPException):
        Stream(sock, lambda: 1.0).makefile("rb").read()
    assert sock.recv.call_count <= 300


def test_little_is_read_and_nothing_decompressed() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    with receiving(respond(200, bomb, **{"Content-Encoding": "gzip"})) as receiver:
        outcome = send(f"http://127.0.0.1:{receiver.port}/")
    assert outcome.status == 200
    assert bomb.decode(errors="replace").replace("\0", "\ufffd").startswith(outcome.text)
    assert 2048 - 4 < len(outcome.text.encode()) <= 2048
    assert len(bomb) < MAX_RESPONSE_BYTES


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Grüße".encode(), "Grüße"),
        (b"a\0b\xff", "a\ufffdb\ufffd"),
        (b"x" * 5000, "x" * 2048),
        (b"\xff" * 5000, "\ufffd" * 682),
        (b"", ""),
    ],
)
def test_beginning_of_the_text_is_kept(body: bytes, text: str) -> None:
    with receiving(respond(500, body)) as receiver:
        assert send(f"http://127.0.0.1:{receiver.port}/").text == text


@pytest.mark.parametrize(
    ("response", "failure"),
    [
        (b"", Failure.CONNECTION),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Failure.RESPONSE),
        (b"HTTP/1.1 abc OK\r\n\r\n", Failure.RESPONSE),
        (b"HTTP/1.1 99 OK\r\n\r\n", Failure.RESPONSE),
        (b"HTTP/1.1 1000 OK\r\n\r\n", Failure.RESPONSE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n", Failure.RESPONSE),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", None),
    ],
)
def test_malformed_responses_are_outcomes(response: bytes, failure: Failure | None, caplog: Any) -> None:
    with receiving(lambda connection, _: connection.sendall(response)) as receiver:
        outcome = send(f"http://127.0.0.1:{receiver.port}/?token=secret")
    assert outcome.error == failure
    assert (outcome.status == 200) is (failure is None)
    assert "secret" not in caplog.text


def test_retry_after_is_seconds_or_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=100)
    assert parse_retry_after("120") == 120
    assert parse_retry_after(format_datetime(soon, usegmt=True)) in range(98, 102)
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    for value in ("", "-1", "soon", "1e3", "9" * 5000, "\u0663", "x" * 60_000, "Wed, 21 Oct 2015 07:28:00"):
        assert parse_retry_after(value) is None
