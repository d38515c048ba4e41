"""Request heads that no client library sends, to a service behind one trusted proxy."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live import Service, live_service
from tests.support.raw_http import connect, parse_response, read_until_closed
from tests.system.hostile.conftest import MODES

PROXY = b"X-Forwarded-For: 203.0.113.9\r\n"  # What the trusted proxy adds for an external client.
JSON = b"Content-Type: application/json\r\n"
PET = b'{"name": "Head", "categoryId": 1}'
LENGTH = b"Content-Length: %d\r\n" % len(PET)
PAGES = ["/", "/healthz", "/account/login/", "/static/petstore/site.css", "/docs/search?q=pets"]


@pytest.fixture(scope="module", params=MODES)
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service on one worker, which trusts any peer as its proxy."""
    environment = {"SERVE_MODE": request.param, "TRUSTED_PROXY_COUNT": "1"}
    with live_service(tmp_path_factory.mktemp("proxied"), workers=1, **environment) as service:
        yield service


@pytest.fixture(scope="module")
def key(proxied: Service) -> bytes:
    return b"Authorization: Bearer " + proxied.issue_high_limit_key("Heads").encode() + b"\r\n"


def send(
    service: Service,
    path: str,
    *lines: bytes,
    method: bytes = b"GET",
    body: bytes = b"",
    host: bytes = b"Host: localhost\r\n",
) -> tuple[int, dict[str, str], Any]:
    """Return the response's status, headers and body, which is parsed if it is JSON."""
    head = b"".join([method, b" ", path.encode(), b" HTTP/1.1\r\n", host, b"Connection: close\r\n", *lines])
    status, headers, response = parse_response(
        read_until_closed(connect(service, head + b"\r\n" + body, timeout=10))
    )
    is_json = headers.get("content-type") == "application/json" and response
    return status, headers, json.loads(response) if is_json else response.decode()


def get_error(response: tuple[int, dict[str, str], Any]) -> tuple[int, str]:
    """Return the status and code of an Error, and check for the headers of every response under /v1."""
    status, headers, body = response
    assert {
        "x-request-id",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    } <= headers.keys()
    assert body["status"] == status
    return status, body["code"]


OVERSIZED = [
    b"Content-Type: a/b;a=\"" + b";" * 60_000 + b"\r\n",
    b"Cookie: sessionid=\"" + b"\\" * 60_000 + b"\"\r\n",
    b"If-None-Match: " + b'"a",' * 3_000 + b"\r\n",
    b"Idempotency-Key: " + b"a" * 8_193 + b"\r\n",
    b"X_A: " + b"a" * 8_193 + b"\r\n",
    (b"X-A: " + b"a" * 4_097 + b"\r\n") * 2,
]  # fmt: skip


@pytest.mark.parametrize("line", OVERSIZED, ids=range(len(OVERSIZED)))
def test_oversized_header_is_a_431_with_or_without_a_key(proxied: Service, key: bytes, line: bytes) -> None:
    for method, lines, body in ((b"GET", (), b""), (b"POST", (LENGTH,), PET)):
        for authorization in (b"", key, b"Authorization: Bearer " + b"a" * 9_000 + b"\r\n"):
            response = send(
                proxied, "/v1/pets", PROXY, authorization, line, *lines, method=method, body=body
            )
            assert get_error(response) == (431, "headers_too_large")
    for page in PAGES:
        assert send(proxied, page, PROXY, line)[0] == 431


def test_header_of_8192_bytes_is_served(proxied: Service, key: bytes) -> None:
    for name in (b"Cookie", b"X-A", b"If-None-Match", b"Accept", b"Referer"):
        line = name + b": " + b"a" * 8_192 + b"\r\n"
        assert send(proxied, "/v1/pets", PROXY, key, line)[0] == 200
        assert [send(proxied, page, PROXY, line)[0] for page in PAGES] == [200] * len(PAGES)


def test_431_counts_for_the_address_of_the_client_and_not_for_the_account(
    proxied: Service, key: bytes
) -> None:
    own = b"X-Forwarded-For: 203.0.113.77\r\n"

    def get_remaining(*lines: bytes) -> int:
        return int(send(proxied, "/v1/pets", own, *lines)[1]["x-ratelimit-remaining"])

    account, address = get_remaining(key), get_remaining()
    assert [get_remaining(key, OVERSIZED[3]), get_remaining(OVERSIZED[3])] == [address - 1, address - 2]
    assert get_remaining(key) == account - 1


def test_431_counts_for_the_address_that_the_proxy_wrote_into_the_long_header(proxied: Service) -> None:
    before = int(
        send(proxied, "/v1/pets", b"X-Forwarded-For: 203.0.113.78\r\n")[1]["x-ratelimit-remaining"]
    )
    long = b"X-Forwarded-For: " + b"1," * 5_000 + b" 203.0.113.78\r\n"
    status, headers, _ = send(proxied, "/v1/pets", long)
    assert (status, int(headers["x-ratelimit-remaining"])) == (431, before - 1)


def test_page_for_an_oversized_cookie_says_what_to_do(proxied: Service) -> None:
    status, headers, page = send(proxied, "/admin/", PROXY, OVERSIZED[1])
    assert status == 431
    assert "Delete the cookies of this site" in page
    assert "content-security-policy" in headers


@pytest.mark.parametrize("method", [b"GET", b"POST"])
@pytest.mark.parametrize(("size", "is_long"), [(256, False), (257, True), (8_192, True)])
def test_content_type_of_more_than_256_bytes_is_a_415(
    proxied: Service, key: bytes, size: int, is_long: bool, method: bytes
) -> None:
    line = b"Content-Type: " + b'application/json;a="'.ljust(size - 1, b";") + b'"\r\n'
    body = (PET, (LENGTH,)) if method == b"POST" else (b"", ())
    response = send(proxied, "/v1/pets", PROXY, key, line, *body[1], method=method, body=body[0])
    assert response[0] == (415 if is_long else 201 if method == b"POST" else 200)
    assert not is_long or get_error(response)[1] == "unsupported_media_type"
    page = send(proxied, "/account/login/", PROXY, line, *body[1], method=method, body=body[0])
    assert (page[0] == 415) is is_long
    without_key = send(proxied, "/v1/pets", PROXY, line, *body[1], method=method, body=body[0])
    assert get_error(without_key) == (401, "missing_api_key")


UNREADABLE = [b"\xff, 127.0.0.1", b"caf\xe9, 203.0.113.9", b"\xff", b"", b"unknown", b"203.0.113.9,"]


def test_unreadable_forwarded_addresses_grant_no_access(proxied: Service) -> None:
    inside = proxied.issue("Inside", "free", "--allow-from", "127.0.0.0/8")["key"].encode()
    authorization = b"Authorization: Bearer " + inside + b"\r\n"
    for sent in UNREADABLE:
        line = b"X-Forwarded-For: " + sent + b"\r\n"
        assert get_error(send(proxied, "/v1/pets", authorization, line)) == (400, "invalid_parameter")
        assert [send(proxied, page, line)[0] for page in ("/metrics", "/account/login/")] == [400, 400]


def test_invalid_line_among_others_invalidates_the_header(proxied: Service) -> None:
    lines = b"X-Forwarded-For: \xff, 203.0.113.9\r\nX-Forwarded-For: 127.0.0.1\r\n"
    assert send(proxied, "/metrics", lines)[0] == 400


def test_without_forwarded_addresses_the_peer_is_the_client(proxied: Service, key: bytes) -> None:
    assert send(proxied, "/metrics")[0] == 200
    assert send(proxied, "/v1/pets", key)[0] == 200
    assert send(proxied, "/metrics", PROXY)[0] == 404


def test_unreadable_cookie_signs_out_and_the_page_says_so(proxied: Service) -> None:
    cookie = b"Cookie: sessionid=a; theme=\xff\r\n"
    status, headers, _ = send(proxied, "/admin/", PROXY, cookie)
    assert (status, headers["location"].partition("?")[0]) == (302, "/admin/login/")
    status, _, page = send(proxied, "/account/login/", PROXY, cookie)
    assert status == 200
    assert "sent a cookie with characters" in page
    assert "sent a cookie" not in send(proxied, "/account/login/", PROXY)[2]
    form = b"login=aaaa&password=b"
    lines = cookie, b"Content-Type: application/x-www-form-urlencoded\r\n", b"Content-Length: 21\r\n"
    status, _, page = send(proxied, "/account/login/", PROXY, *lines, method=b"POST", body=form)
    assert status == 403
    assert "sent a cookie with characters" in page


@pytest.mark.parametrize(
    "host",
    [b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\nHost: a\r\n", b"Host: a b\r\n", b"Host: \xff\r\n"],
)  # fmt: skip
def test_missing_repeated_or_invalid_host_is_a_400(proxied: Service, key: bytes, host: bytes) -> None:
    assert get_error(send(proxied, "/v1/pets", PROXY, key, host=host)) == (400, "invalid_parameter")
    assert [send(proxied, page, PROXY, host=host)[0] for page in PAGES] == [400] * len(PAGES)


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"deflate", b"identity, gzip", b"\xff"])
def test_compressed_body_is_a_415_that_names_the_accepted_coding(
    proxied: Service, key: bytes, coding: bytes
) -> None:
    encoding = b"Content-Encoding: " + coding + b"\r\n"
    for lines in ((JSON,), (JSON, b"Idempotency-Key: " + coding.hex().encode() + b"\r\n")):
        response = send(proxied, "/v1/pets", PROXY, key, *lines, encoding, LENGTH, method=b"POST", body=PET)
        assert get_error(response) == (415, "unsupported_media_type")
        assert response[1]["accept-encoding"] == "identity"
    status, headers, _ = send(proxied, "/account/login/", PROXY, encoding, LENGTH, method=b"POST", body=PET)
    assert (status, headers["accept-encoding"]) == (415, "identity")


def test_body_with_identity_coding_is_accepted(proxied: Service, key: bytes) -> None:
    lines = PROXY, key, JSON, b"Content-Encoding: Identity\r\n", LENGTH
    assert send(proxied, "/v1/pets", *lines, method=b"POST", body=PET)[0] == 201


@pytest.mark.parametrize(
    ("coding", "end"), [(b"gzip, chunked", b"\r\n"), (b"chunked", b"X-Sum: a\r\n\r\n"), (b"chunked", b"")]
)
def test_body_with_another_transfer_coding_trailers_or_truncation_is_rejected(
    proxied: Service, key: bytes, coding: bytes, end: bytes
) -> None:
    chunk = b"%x\r\n%b\r\n" % (len(PET), PET) + (b"0\r\n" + end if end else b"5\r\n")
    lines = PROXY, key, JSON, b"Transfer-Encoding: " + coding + b"\r\n"
    head = b"POST /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + b"".join(lines) + b"\r\n"
    connection = connect(proxied, head, chunk, timeout=10)
    if not end:
        connection.shutdown(1)
    status, _, body = parse_response(read_until_closed(connection))
    assert status == 400
    message = json.loads(body)["message"]
    assert ("Transfer-Encoding" if coding != b"chunked" else "trailers") in message


def test_invalid_next_url_of_the_sign_in_is_a_400_without_a_traceback(proxied: Service) -> None:
    assert send(proxied, "/admin/?" + "?" * 8_000, PROXY)[0] == 400
    assert "Traceback" not in proxied.log()


def test_no_request_caused_a_5xx(proxied: Service) -> None:
    assert "Traceback" not in proxied.log()
