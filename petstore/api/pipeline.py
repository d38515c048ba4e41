"""The request pipeline: every request under /v1 takes these steps, in the order of the contract.

`ApiPipeline` is the outermost middleware and serves these requests itself, without the sessions, CSRF
tokens, redirects and host checks that pages need. Steps store their results in the `RequestContext`. This
layer may not import accounts, so accounts passes in its steps as `Steps`.
"""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import md5
from typing import ClassVar, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.urls import ResolverMatch, resolve

from petstore.api.context import RequestContext, operation_of
from petstore.api.errors import ApiError, ErrorCode, build_error_response
from petstore.api.request_headers import check_content, check_head
from petstore.api.responses import Response
from petstore.observability import tracing
from petstore.observability.instrumentation import InstrumentedHandler

logger = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase]

EMPTY_PAGE = b"[]"


class Steps(NamedTuple):
    """The steps of accounts, set in accounts/apps.py. They raise ApiError to reject a request."""

    check_key_format: Callable[[str], object]  # Takes the Authorization header; needs no store.
    authenticate: Callable[[HttpRequest, RequestContext], None]  # Sets the caller and counts the request.
    throttle: Callable[[HttpRequest, RequestContext], None]  # Rejects requests over a limit.
    record_missing_scope: Callable[[HttpRequest, RequestContext, str], None]  # For staff to look up.
    quota_headers: Callable[[HttpRequest, RequestContext], Mapping[str, str]]  # On every response (D23).
    unused_quota_headers: Callable[[], Mapping[str, str]]  # Of an uncounted response.


def is_api_path(path: str) -> bool:
    return path.startswith("/v1/") or path == "/v1"


class ApiPipeline:
    steps: ClassVar[Steps]

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._instrumented = InstrumentedHandler(tracing.trace_requests(self._respond))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return (
            self.respond(request).as_django()
            if is_api_path(request.path_info)
            else self._get_response(request)
        )

    def respond(self, request: HttpRequest) -> Response:
        """Serve a request under /v1. The event loop calls this, bypassing Django's handler."""
        context = RequestContext.start(request)
        return self._instrumented(request, context)  # Also writes the log line and metrics.

    def _respond(self, request: HttpRequest) -> Response:
        context = RequestContext.of(request)
        try:
            match, parameters = find_view(request.path_info)
            request.resolver_match = match
            operation = context.operation = operation_of(match.func, request.method)
            try:
                check_head(request)  # Before anything is parsed (D30).
                self.steps.authenticate(request, context)  # Before all else, also on unknown paths (D17).
            finally:
                self.steps.throttle(request, context)  # Without a valid key, counts by address.
            check_url_length(request)
            self._check_scope(operation.scope, request, context)
            check_content(request)
            response: Response = match.func(request, **parameters)
        except Exception as error:  # noqa: BLE001  Every exception becomes an Error (D29).
            response = build_error_response(error)
        headers = response.headers
        headers["X-Request-Id"] = context.id
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Vary"] = "Authorization"
        if context.operation.deprecation is not None:
            context.operation.deprecation.announce(response)
        for name, value in self._quota_headers(request, context).items():
            headers[name] = value
        if response.status_code == 200 and request.method in {"GET", "HEAD"}:
            make_conditional(request, response)
        else:
            headers["Cache-Control"] = "no-store"
        if response.status_code not in {204, 304}:  # Avoids chunked encoding.
            headers["Content-Length"] = str(len(response.content))
        return response

    def _check_scope(self, scope: str | None, request: HttpRequest, context: RequestContext) -> None:
        if scope is not None and (context.caller is None or scope not in context.caller.scopes):
            self.steps.record_missing_scope(request, context, scope)
            message = f"The API key lacks the scope {scope}. Use a key that has it."
            raise ApiError(ErrorCode.INSUFFICIENT_SCOPE, message)

    def _quota_headers(self, request: HttpRequest, context: RequestContext) -> Mapping[str, str]:
        """Return the quota's headers, or on failure those of an unused quota."""
        try:
            return self.steps.quota_headers(request, context)
        except Exception:
            logger.exception("The quota headers of a response failed; it shows an unused limit.")
            return self.steps.unused_quota_headers()


@lru_cache(maxsize=256)
def resolve_cached(path: str) -> ResolverMatch:
    return resolve(path, settings.API_URLCONF)


def find_view(path: str) -> tuple[ResolverMatch, Mapping[str, str]]:
    """Resolve a path to its view and parameters. Raises Resolver404.

    Paths that differ only in a number at the end share one cache entry.
    """
    parent, _, last = path.rpartition("/")
    if len(path) >= 100:
        match = resolve(path, settings.API_URLCONF)
    elif last.isdecimal():
        match = resolve_cached(f"{parent}/0")
        return match, {name: last if value == "0" else value for name, value in match.kwargs.items()}
    else:
        match = resolve_cached(path)
    return match, match.kwargs


def check_url_length(request: HttpRequest) -> None:
    meta = request.META
    if len(meta.get("PATH_INFO", "")) + len(meta.get("QUERY_STRING", "")) > settings.MAX_URL_BYTES:
        raise ApiError(ErrorCode.URI_TOO_LONG)


def make_conditional(request: HttpRequest, response: Response) -> None:
    """Set the ETag, and respond to a matching If-None-Match with 304 (D32, RFC 9110 section 13.1.2)."""
    version = md5(response.content, usedforsecurity=False)
    if response.content != EMPTY_PAGE:  # A 304 may move the feed's link of an empty page (D40).
        version.update(response.headers.get("Link", "").encode())
    etag = response.headers["ETag"] = f'"{version.hexdigest()}"'
    response.headers["Cache-Control"] = "private, no-cache"  # Store, but revalidate.
    sent = request.META.get("HTTP_IF_NONE_MATCH", "")
    if etag in sent or sent.strip() == "*":  # The quotes are part of the tag: no need to parse the list.
        response.status_code = 304
        response.content = b""
        del response.headers["Content-Type"]
