"""Django's requests, made from what the server tells of them."""

from functools import lru_cache
from typing import Any
from wsgiref.types import WSGIEnvironment

from django.core.handlers.wsgi import WSGIRequest
from django.http.request import HttpHeaders
from django.utils.http import parse_header_parameters

from petstore.serving.bodies import Body


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever its Content-Type says.

    Django would decode the query by that charset, and fails on those that are no encodings of text.
    """

    def _set_content_type_params(self, meta: WSGIEnvironment) -> None:
        try:
            content_type = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except (ValueError, TypeError, LookupError):  # Parameters as in RFC 2231, and malformed.
            content_type = ("", {})
            meta["CONTENT_TYPE"] = ""  # DRF parses it again.
        self.content_type, self.content_params = content_type


class LoopRequest(Utf8Request):
    """A request made from what RSGI tells, without the detour over a WSGI environment."""

    def __init__(self, scope: Any, body: Body) -> None:
        self.META = self.environ = meta_of(scope)
        self.META["CONTENT_LENGTH"] = str(body.length)
        self.path = self.path_info = scope.path
        self.method = scope.method.upper()
        if "CONTENT_TYPE" in self.META:
            self._set_content_type_params(self.META)
        else:
            self.content_type, self.content_params = "", {}
        self._stream = body.stream()
        if body.error is None:
            self._body = body.content  # Django would read it again.
        self._read_started = False
        self.resolver_match = None


# What a header says that the server could not decode: as WSGI has it, a character of Latin-1, and no ASCII.
UNREADABLE = "\xff"


@lru_cache(maxsize=1000)  # Clients may send any names.
def meta_name(header: str) -> str:
    """Return what META calls a header; nothing for one that could pass for another."""
    if "_" in header:
        return ""
    name = HttpHeaders.to_wsgi_name(header)
    return str(name)


def meta_of(scope: Any) -> dict[str, Any]:
    """Return Django's META: CGI's variables (RFC 3875 section 4.1) and the headers."""
    meta = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": scope.path,
        "QUERY_STRING": scope.query_string.encode().decode("latin-1"),
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "wsgi.url_scheme": scope.scheme,
    }
    meta["SERVER_NAME"], _, meta["SERVER_PORT"] = scope.server.rpartition(":")
    if scope.authority:  # HTTP/2 has it instead of Host.
        meta["HTTP_HOST"] = scope.authority
    others = len(meta)
    for header, value in scope.headers.items():
        name = meta_name(header)
        if name in meta:  # Sent more than once (RFC 9110 section 5.3; RFC 9113 section 8.2.3).
            meta[name] += f"{'; ' if name == 'HTTP_COOKIE' else ','}{value}"
        else:
            meta[name] = value
    names = scope.headers.keys()
    if len(meta) - others < len(names):  # What is not ASCII is in no item.
        for header in names:
            meta.setdefault(meta_name(header), UNREADABLE)
    meta.pop("", None)
    return meta
