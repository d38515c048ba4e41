"""Requests built from granian's scope, and their responses."""

import asyncio
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest

from petstore.api.errors import ErrorCode
from petstore.api.request_headers import HEAD_ERROR, MAX_CONTENT_TYPE_LENGTH, UNREADABLE
from petstore.api.responses import Response
from petstore.db.event_loop.greenlets import wait
from petstore.server import bodies
from petstore.server.bodies import Exchange
from petstore.server.django_requests import RSGIRequest, build_meta, get_meta_name
from petstore.server.serving import GetResponse, serve_on_loop


class Headers:
    """Headers that behave like granian's, whose `items` omits values that are not ASCII.

    `unreadable` names the headers whose first value is not ASCII.
    """

    def __init__(self, *items: tuple[str, str], unreadable: tuple[str, ...] = ()) -> None:
        self._items = list(items)
        self._names = list(dict.fromkeys([*dict(items), *unreadable]))
        self._first = dict(reversed(items)) | dict.fromkeys(unreadable)

    def items(self) -> list[tuple[str, str]]:
        return self._items

    def keys(self) -> list[str]:
        return self._names

    def get(self, name: str) -> str | None:
        return self._first.get(name)


HOST = ("host", "a")


def make_scope(headers: Headers | None = None, **attributes: Any) -> Any:
    defaults = {
        "method": "GET", "path": "/v1/pets", "query_string": "", "client": "127.0.0.1:1",
        "server": "127.0.0.1:2", "scheme": "http", "http_version": "1.1", "authority": None,
        "headers": headers or Headers(HOST),
    }  # fmt: skip
    return SimpleNamespace(**defaults | attributes)


def get_problem(*lines: tuple[str, str], **attributes: Any) -> ErrorCode | None:
    error = build_meta(make_scope(Headers(*lines), **attributes)).get(HEAD_ERROR)
    return error and error.code


async def serve(protocol: Any, get_response: GetResponse) -> None:
    await serve_on_loop(make_scope(), Exchange(protocol), bodies.EMPTY_BODY, get_response)


def test_responses_of_one_loop_iteration_are_sent_together() -> None:
    protocol = Mock()

    def get_response(request: RSGIRequest) -> Response:
        wait(asyncio.sleep(0))
        protocol.created()
        return Response(status=204)

    async def main() -> None:
        await asyncio.gather(serve(protocol, get_response), serve(protocol, get_response))

    asyncio.run(main())
    sent = call.response_empty(204, [])
    assert protocol.mock_calls == [call.created(), call.created(), sent, sent]


def fail(request: RSGIRequest) -> Response:
    raise ValueError


def return_unsendable(request: RSGIRequest) -> Response:
    return Response(headers={"Location": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("get_response", [fail, return_unsendable])
def test_failed_request_gets_500(get_response: GetResponse) -> None:
    protocol = Mock()
    protocol.response_empty.side_effect = TypeError
    asyncio.run(serve(protocol, get_response))
    assert protocol.mock_calls[-1] == call.response_bytes(500, [], b"")


@pytest.mark.parametrize("unreadable", [(), ("x-b", "x_c")])
def test_header_with_underscore_is_dropped(unreadable: tuple[str, ...]) -> None:
    meta = build_meta(make_scope(Headers(("x_a", "1"), ("x-a", "2"), unreadable=unreadable)))
    assert meta["HTTP_X_A"] == "2"
    assert "" not in meta
    assert "HTTP_X_C" not in meta


@pytest.mark.parametrize("name", ["x-forwarded-for", "cookie", "idempotency-key", "authorization"])
def test_undecodable_line_invalidates_its_header(name: str) -> None:
    for lines in ([HOST, ("x-a", "1"), ("x-a", "2")], [HOST, (name, "127.0.0.1")]):
        meta = build_meta(make_scope(Headers(*lines, unreadable=(name,))))
        assert meta[get_meta_name(name)] == UNREADABLE
        assert meta.get("HTTP_X_A", "1,2") == "1,2"


@pytest.mark.parametrize(
    ("lines", "is_valid"),
    [
        ([("x-a", "a" * 8_192)], True), ([("x-a", "a" * 8_193)], False),
        ([("x-a", "a" * 4_096), ("x-a", "a" * 4_095)], True),
        ([("x-a", "a" * 4_096), ("x-a", "a" * 4_096)], False),
        ([("x-a", "a" * 8_192), ("x-b", "a" * 8_192)], True),
        ([("x_a", "a" * 8_192), ("x_b", "a" * 8_192)], True), ([("x_a", "a" * 8_193)], False),
        ([("x" * 9_000, "a")], True),
    ],
)  # fmt: skip
def test_lines_of_a_header_have_at_most_8192_bytes(lines: list[tuple[str, str]], is_valid: bool) -> None:
    assert get_problem(HOST, *lines) is (None if is_valid else ErrorCode.HEADERS_TOO_LARGE)


@pytest.mark.parametrize("name", ["cookie", "content-type", "x-a", "if-none-match", "x" * 9_000])
def test_overlong_values_are_truncated(name: str) -> None:
    meta = build_meta(make_scope(Headers(HOST, *[(name, "a" * 9_000)] * 3)))
    assert all(len(text) <= 8_192 for item in meta.items() for text in item if isinstance(text, str))
    assert len(meta.get("CONTENT_TYPE", "")) <= MAX_CONTENT_TYPE_LENGTH + 1
    meta = build_meta(make_scope(Headers(HOST, ("x-forwarded-for", "1," * 9_000 + "192.0.2.1"))))
    assert meta["HTTP_X_FORWARDED_FOR"].endswith(",192.0.2.1")  # The proxies' part is kept.


def test_backslashes_are_removed_from_cookies() -> None:
    meta = build_meta(make_scope(Headers(HOST, ("cookie", r'a="\\"; sessionid=b'))))
    assert meta["HTTP_COOKIE"] == 'a=""; sessionid=b'


ONE_HOST: dict[str, list[str]] = {
    "valid": ["a", "a:1", "A_b.example:80", "[::1]", "[::1]:80", "", "xn--a~b", "a."],
    "invalid": ["a b", "a,b", "a/b", "a@b", "[::1", "::1", "a:b", "\xff", "a?b", "[a g]"],
}


@pytest.mark.parametrize(
    ("lines", "attributes", "is_valid"),
    [
        *(([("host", host)], {}, kind == "valid") for kind, hosts in ONE_HOST.items() for host in hosts),
        ([], {}, False),
        ([HOST, HOST], {}, False),
        ([], {"authority": "a.example"}, False),
        ([], {"http_version": "1"}, True),
        ([HOST, HOST], {"http_version": "1"}, False),
        ([HOST, ("transfer-encoding", "Chunked")], {}, True),
        *(([HOST, ("transfer-encoding", coding)], {}, False)
          for coding in ("gzip, chunked", "chunked, chunked", "identity", "gzip", "")),
    ],
)  # fmt: skip
def test_head_needs_one_valid_host_and_no_transfer_encoding_but_chunked(
    lines: list[tuple[str, str]], attributes: Any, *, is_valid: bool
) -> None:
    """The host of the request line has precedence."""
    assert get_problem(*lines, **attributes) is (None if is_valid else ErrorCode.INVALID_PARAMETER)
    assert build_meta(make_scope(authority="b.example:80"))["HTTP_HOST"] == "b.example:80"


def test_methods_are_case_sensitive() -> None:
    for method in ("get", "Get", "PROPFIND", "X" * 9_000):
        assert RSGIRequest(make_scope(method=method), bodies.EMPTY_BODY).method == "other"


class HealthHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_announcing_thread_imports_nothing() -> None:
    """A worker that is forked during an import would wait for the import lock forever."""
    script = """
import sys
from petstore.server.supervisor import is_alive
is_alive(1)  # As `main` does before the first fork.
loaded = set(sys.modules)
print(is_alive(int(sys.argv[1])), *set(sys.modules) - loaded)
"""
    with HTTPServer(("127.0.0.1", 0), HealthHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        command = [sys.executable, "-c", script, str(server.server_port)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "True\n"
