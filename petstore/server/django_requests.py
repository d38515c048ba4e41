"""Django requests that are built from granian's RSGI scope."""

import re
from functools import cached_property, lru_cache
from io import BytesIO
from typing import Any
from wsgiref.types import WSGIEnvironment

from django.core.handlers.wsgi import WSGIRequest
from django.http.request import HttpHeaders
from django.utils.http import parse_header_parameters

from petstore.api.errors import invalid_parameter
from petstore.api.request_headers import (
    BODY_ERROR,
    HEAD_ERROR,
    MAX_CONTENT_TYPE_LENGTH,
    MAX_HEADER_LENGTH,
    UNREADABLE,
    header_too_long,
)
from petstore.observability.metrics import METHODS, OTHER_METHOD
from petstore.server.bodies import Body


@lru_cache(maxsize=256)  # Bounded, because clients may send any value.
def parse_content_type(header: str) -> tuple[str, dict[str, str]]:
    """Parse a Content-Type. Callers must not modify the result, which is cached."""
    kind, parameters = parse_header_parameters(header)
    return kind, parameters


class RSGIRequest(WSGIRequest):
    """A Django request for an RSGI scope.

    It is decoded as UTF-8 even if its Content-Type names another charset. Django would use that charset for
    the query as well.
    """

    def __init__(self, scope: Any, body: Body) -> None:
        self.META = self.environ = build_meta(scope)
        self.META["CONTENT_LENGTH"] = str(body.length)
        if body.error is not None:
            self.META[BODY_ERROR] = body.error
        self.path = self.path_info = scope.path
        self.method = self.META["REQUEST_METHOD"]  # Case-sensitive (RFC 9110 section 9.1).
        if "CONTENT_TYPE" in self.META:
            self._set_content_type_params(self.META)
        else:
            self.content_type, self.content_params = "", {}
        self._rsgi_body = body
        self._read_started = False
        self.resolver_match = None

    def _set_content_type_params(self, meta: WSGIEnvironment) -> None:
        try:
            self.content_type, self.content_params = parse_content_type(meta.get("CONTENT_TYPE", ""))
        except (ValueError, TypeError, LookupError):  # Malformed parameters of RFC 2231.
            self.content_type, self.content_params = "", {}
            meta["CONTENT_TYPE"] = ""  # DRF would parse it again and fail.

    @property
    def body(self) -> bytes:
        return self._rsgi_body.read()

    @cached_property
    def _stream(self) -> BytesIO:  # type: ignore[override]
        return BytesIO(self.body)


MAX_NAME_LENGTH = 256  # Longer names are truncated, because names are cached.
# A comma, which joins repeated Host headers, is invalid. The API accepts any host.
HOST = re.compile(r"(?:[\w.~!$&'()*+;=%-]*|\[[0-9a-f:.]+\])(?::[0-9]*)?", re.ASCII | re.IGNORECASE)

BAD_HOST = "The request has no valid Host header, or several. Send exactly one."
BAD_CODING = "The Transfer-Encoding is not supported. Send the body with a Content-Length or as chunked."


@lru_cache(maxsize=1000)  # Bounded, because clients may send any name.
def get_meta_name(header: str) -> str:
    """Return the name of a header in META, or "" for a name with "_", which META can't tell from "-"."""
    return "" if "_" in header else str(HttpHeaders.to_wsgi_name(header))


def build_meta(scope: Any) -> dict[str, Any]:
    """Build Django's META: CGI variables (RFC 3875 section 4.1) and headers.

    Values are truncated to their limits. If a header is invalid, HEAD_ERROR stores the error.
    """
    headers, version = scope.headers, scope.http_version  # granian copies them at each access.
    meta: dict[str, Any] = {
        "REQUEST_METHOD": scope.method if scope.method in METHODS else OTHER_METHOD,
        "SCRIPT_NAME": "",
        "PATH_INFO": scope.path,
        "QUERY_STRING": scope.query_string.encode().decode("latin-1"),
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "SERVER_PROTOCOL": f"HTTP/{version}",
        "wsgi.url_scheme": scope.scheme,
    }
    meta["SERVER_NAME"], _, meta["SERVER_PORT"] = scope.server.rpartition(":")
    for header, line in headers.items():
        name, value = get_meta_name(header[:MAX_NAME_LENGTH]), line
        if name in meta and name:  # Join repeated headers (RFC 9110 section 5.3; RFC 9113 section 8.2.3).
            value = f"{meta[name]}{'; ' if name == 'HTTP_COOKIE' else ','}{line}"
        if len(value) > MAX_HEADER_LENGTH:
            meta[HEAD_ERROR] = header_too_long(header)
            value = value[-MAX_HEADER_LENGTH:]  # Proxies append their addresses to X-Forwarded-For.
        meta[name] = value
    names = headers.keys()
    if None in map(headers.get, names):  # `headers.items` omits values that are not ASCII.
        meta |= {
            get_meta_name(name[:MAX_NAME_LENGTH]): UNREADABLE for name in names if headers.get(name) is None
        }
    meta.pop("", None)
    if len(meta.get("CONTENT_TYPE", "")) > MAX_CONTENT_TYPE_LENGTH:
        meta["CONTENT_TYPE"] = meta["CONTENT_TYPE"][: MAX_CONTENT_TYPE_LENGTH + 1]  # The API rejects it.
    # Backslashes are invalid in cookies (RFC 6265 section 4.1.1) and slow to unquote.
    if "\\" in meta.get("HTTP_COOKIE", ""):
        meta["HTTP_COOKIE"] = meta["HTTP_COOKIE"].replace("\\", "")
    if not HOST.fullmatch(meta.get("HTTP_HOST", "," if version == "1.1" else "")):  # RFC 9112 section 3.2.
        meta[HEAD_ERROR] = invalid_parameter(BAD_HOST)
    if meta.get("HTTP_TRANSFER_ENCODING", "chunked").lower() != "chunked":
        meta[HEAD_ERROR] = invalid_parameter(BAD_CODING)
    if scope.authority:  # The request line has precedence over Host (RFC 9112 section 3.2.2).
        meta["HTTP_HOST"] = scope.authority
    return meta
