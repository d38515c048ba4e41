"""Django's requests, made from what the server tells of them."""

from functools import cached_property, lru_cache
from io import BytesIO
from time import perf_counter
from typing import Any
from wsgiref.types import WSGIEnvironment

from django.core.handlers.wsgi import WSGIRequest
from django.http.request import HttpHeaders
from django.utils.http import parse_header_parameters

from petstore.api.passage import Passage
from petstore.serving.bodies import AnyBody


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever its Content-Type says.

    Django would decode the query by that charset, and fails on those that are no encodings of text.
    """

    def _set_content_type_params(self, meta: WSGIEnvironment) -> None:
        try:
            self.content_type, self.content_params = content_type_of(meta.get("CONTENT_TYPE", ""))
        except (ValueError, TypeError, LookupError):  # Parameters as in RFC 2231, and malformed.
            self.content_type, self.content_params = "", {}
            meta["CONTENT_TYPE"] = ""  # DRF parses it again.


@lru_cache(maxsize=256)  # Clients may send any, and nearly all send the same.
def content_type_of(header: str) -> tuple[str, dict[str, str]]:
    """Return what a Content-Type says; nobody changes the parameters. Raises what Django raises."""
    kind, parameters = parse_header_parameters(header)
    return kind, parameters


class LoopRequest(Utf8Request):
    """A request made from what RSGI tells, without the detour over a WSGI environment."""

    def __init__(self, scope: Any, body: AnyBody) -> None:
        self.META = self.environ = meta_of(scope)
        self.META["CONTENT_LENGTH"] = str(body.length)
        self.path = self.path_info = scope.path
        self.method = scope.method.upper()
        if "CONTENT_TYPE" in self.META:
            self._set_content_type_params(self.META)
        else:
            self.content_type, self.content_params = "", {}
        self._sent = body
        self._read_started = False
        self.resolver_match = None

    @property
    def body(self) -> bytes:
        """The body, which may still be coming: how long that takes is the client's doing."""
        if self._sent.is_here():
            return self._sent.read()
        began = perf_counter()
        try:
            return self._sent.read()
        finally:
            Passage.of(self).waited += perf_counter() - began

    @cached_property
    def _stream(self) -> BytesIO:  # type: ignore[override]
        """What Django reads from."""
        return BytesIO(self.body)


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
