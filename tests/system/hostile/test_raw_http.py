"""Requests that no client library sends, over a socket to the production server: no 5xx, no hang."""

import json
from typing import Any

import pytest

from tests.support.live import Service
from tests.support.raw_http import connect, parse_response, read_until_closed


@pytest.fixture(scope="module")
def credential(service: Service) -> bytes:
    return b"Authorization: Bearer " + service.issue_high_limit_key("Raw").encode() + b"\r\n"


def send(service: Service, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send these bytes; return the status, headers and body. Raises TimeoutError if the server hangs."""
    return parse_response(read_until_closed(connect(service, request, timeout=10)))


def request(target: bytes, *headers: bytes, method: bytes = b"GET", body: bytes = b"") -> bytes:
    head = method + b" " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    return head + b"".join(headers) + b"\r\n" + body


JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def chunk(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"


def test_request_line_of_8000_bytes_is_served(service: Service, credential: bytes) -> None:
    target = b"/v1/pets?x=" + b"a" * (8_000 - len(b"GET /v1/pets?x= HTTP/1.1"))
    assert send(service, request(target, credential))[0] == 200


@pytest.mark.parametrize(
    "target", [b"/v1/pets/%ff", b"/v1/pets/../pets", b"/v1/pets?cursor=%ed%a0%80", b"*"]
)
def test_undecodable_target_is_a_4xx(service: Service, credential: bytes, target: bytes) -> None:
    assert 400 <= send(service, request(target, credential))[0] < 500


UNREADABLE_KEYS = [b"Authorization: Bearer \xff\xfe\xfd\r\n", b"Authorization: Bearer \xe2\x80\xa6\r\n"]


def test_unreadable_or_repeated_key_is_invalid(service: Service, credential: bytes) -> None:
    for headers in (*UNREADABLE_KEYS, credential * 2):
        status, _, body = send(service, request(b"/v1/pets", headers))
        assert (status, json.loads(body)["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("method", [b"GET", b"POST"])
@pytest.mark.parametrize("target", [b"/docs", b"/account/login/", b"/v1/pets"])
def test_non_ascii_header_causes_no_error(
    service: Service, credential: bytes, method: bytes, target: bytes
) -> None:
    for name in (b"Cookie", b"Content-Type", b"Referer", b"Origin", b"X-Request-Id", b"Idempotency-Key"):
        status, _, _ = send(service, request(target, credential, name + b": \xff\xfe\r\n", method=method))
        assert status < 500, name


@pytest.mark.parametrize("size", [65_537, 1_000_000])
@pytest.mark.parametrize("chunked", [True, False])
def test_body_over_64_kib_is_a_413(service: Service, credential: bytes, size: int, chunked: bool) -> None:
    body = b" " * size
    length = CHUNKED if chunked else f"Content-Length: {size}\r\n".encode()
    sent = chunk(body) if chunked else body
    status, _, response = send(
        service, request(b"/v1/pets", credential, JSON, length, method=b"POST", body=sent)
    )
    assert (status, json.loads(response)["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize(
    "parameters", [b"charset*=nope''x", b"a*=x; a*0=y", b"a*0*=x; a*b=y", b"a*=utf-8''%ff", b";" * 200]
)
@pytest.mark.parametrize("target", [b"/v1/pets", b"/account/login/"])
def test_malformed_parameters_of_a_content_type_are_a_4xx(
    service: Service, credential: bytes, parameters: bytes, target: bytes
) -> None:
    content_type = b"Content-Type: application/json; " + parameters + b"\r\n"
    headers = credential, content_type, b"Content-Length: 2\r\n"
    status, _, _ = send(service, request(target, *headers, method=b"POST", body=b"{}"))
    assert status in ({400, 415} if target == b"/v1/pets" else {403})  # Without a CSRF token.


@pytest.mark.parametrize("charset", [b"base64", b"rot13", b"hex", b"utf-16", b"idna", b"nonsense", b"\xff"])
@pytest.mark.parametrize(("target", "status"), [(b"/v1/pets?limit=1", 200), (b"/?x=1", 200)])
def test_charset_of_a_content_type_does_not_affect_the_url(
    service: Service, credential: bytes, charset: bytes, target: bytes, status: int
) -> None:
    content_type = b"Content-Type: text/plain; charset=" + charset + b"\r\n"
    assert send(service, request(target, credential, content_type))[0] == status


def test_no_log_contains_a_key(service: Service, credential: bytes) -> None:
    key: Any = credential.split()[-1].decode()
    assert key not in service.log()
    assert "Traceback" not in service.log()


def test_large_file_arrives_completely(service: Service) -> None:
    """Files are streamed, in several parts."""
    status, headers, body = send(service, request(b"/static/admin/js/vendor/jquery/jquery.js"))
    assert (status, len(body)) == (200, int(headers["content-length"]))
    assert body.rstrip().endswith(b"} );")
