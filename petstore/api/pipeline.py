"""The request pipeline: every request under /v1 takes these steps, in the order of the contract.

`ApiPipeline` is the outermost middleware and answers these requests itself, so they skip what only pages
need: sessions, CSRF tokens, redirects and host checks. What a step learns about a request is kept in its
`RequestContext`. Steps that need accounts are passed in as `Steps`, since this layer may not import them.
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
from petstore.api.errors import ApiError, ErrorCode, error_response
from petstore.api.request_headers import check_content, check_head
from petstore.api.responses import Response
from petstore.observability import tracing
from petstore.observability.instrumentation import InstrumentedHandler

logger = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase]

EMPTY_PAGE = b"[]"


class Steps(NamedTuple):
    """What an app decides at the gate. Each step raises ApiError to refuse; accounts/apps.py sets them."""

    check_form: Callable[[str], object]  # Of an Authorization header; asks no store.
    authenticate: Callable[[HttpRequest, RequestContext], None]  # Sets the caller, and counts the request.
    throttle: Callable[[HttpRequest, RequestContext], None]  # Refuses what is over a limit.
    note_missing_scope: Callable[[HttpRequest, RequestContext, str], None]  # For staff to look up.
    quota_headers: Callable[[HttpRequest, RequestContext], Mapping[str, str]]  # Of any answer (D23).
    untouched_headers: Callable[[], Mapping[str, str]]  # Of one that was answered before the counting.


def is_api_path(path: str) -> bool:
    """Tell whether a path is under /v1, known or not."""
    return path.startswith("/v1/") or path == "/v1"


class ApiPipeline:
    """Django's middleware: answers what is under /v1, and passes everything else on."""

    steps: ClassVar[Steps]

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._measured = InstrumentedHandler(tracing.traced(self._respond))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, or go on."""
        return (
            self.respond(request).as_django()
            if is_api_path(request.path_info)
            else self._get_response(request)
        )

    def respond(self, request: HttpRequest) -> Response:
        """Answer a request under /v1. The event loop asks here, past Django's handler."""
        context = RequestContext.begin(request)  # With its id.
        return self._measured(request, context)  # Answers, then writes the log line and the metrics.

    def _respond(self, request: HttpRequest) -> Response:
        """Return the whole answer: what the view says or an Error, and the headers of every answer."""
        context = RequestContext.of(request)
        try:
            match, parameters = find_view(request.path_info)
            request.resolver_match = match
            operation = context.operation = operation_of(match.func, request.method)
            try:
                check_head(request)  # Before anything parses it (D30).
                self.steps.authenticate(request, context)  # Before all else, on unknown paths too (D17).
            finally:
                self.steps.throttle(request, context)  # Without a valid key it counts for its address.
            check_url_length(request)
            self._check_scope(operation.scope, request, context)
            check_content(request)
            response: Response = match.func(request, **parameters)
        except Exception as error:  # noqa: BLE001  Whatever it is, the answer is an Error (D29).
            response = error_response(error)
        headers = response.headers
        headers["X-Request-Id"] = context.id
        headers["X-Content-Type-Options"] = "nosniff"  # No browser must take an Error for a page.
        headers["Vary"] = "Authorization"
        if context.operation.deprecation is not None:
            context.operation.deprecation.announce(response)
        for name, value in self._quota_headers(request, context).items():
            headers[name] = value
        if response.status_code == 200 and request.method in {"GET", "HEAD"}:
            make_conditional(request, response)
        else:
            headers["Cache-Control"] = "no-store"
        if response.status_code not in {204, 304}:  # So the server need not send it in chunks.
            headers["Content-Length"] = str(len(response.content))
        return response

    def _check_scope(self, scope: str | None, request: HttpRequest, context: RequestContext) -> None:
        """Refuse a key that lacks the operation's scope (D18)."""
        if scope is not None and (context.caller is None or scope not in context.caller.scopes):
            self.steps.note_missing_scope(request, context, scope)
            message = f"The API key lacks the scope {scope}. Use a key that has it."
            raise ApiError(ErrorCode.INSUFFICIENT_SCOPE, message)

    def _quota_headers(self, request: HttpRequest, context: RequestContext) -> Mapping[str, str]:
        """Return what is left; where even that fails, the limit, so that no answer is lost over it."""
        try:
            return self.steps.quota_headers(request, context)
        except Exception:
            logger.exception("The quota headers of an answer failed; it shows an untouched limit.")
            return self.steps.untouched_headers()


@lru_cache(maxsize=256)  # Finding a view took a tenth of a request.
def resolve_cached(path: str) -> ResolverMatch:
    return resolve(path, settings.API_URLCONF)


def find_view(path: str) -> tuple[ResolverMatch, Mapping[str, str]]:
    """Return the view of a path, and the path's parameters. Raises Resolver404.

    Paths that differ only in the number at their end have one view, which is looked for once.
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
    """Refuse a URL of more than MAX_URL_BYTES."""
    meta = request.META
    if len(meta.get("PATH_INFO", "")) + len(meta.get("QUERY_STRING", "")) > settings.MAX_URL_BYTES:
        raise ApiError(ErrorCode.URI_TOO_LONG)


def make_conditional(request: HttpRequest, response: Response) -> None:
    """Give a read its ETag, and answer If-None-Match with 304 (D32, RFC 9110 section 13.1.2)."""
    version = md5(response.content, usedforsecurity=False)
    if response.content != EMPTY_PAGE:  # The link of an empty page of the feed moves on with a 304 (D40).
        version.update(response.headers.get("Link", "").encode())
    etag = response.headers["ETag"] = f'"{version.hexdigest()}"'
    response.headers["Cache-Control"] = "private, no-cache"  # A client may keep it, and must ask again.
    sent = request.META.get("HTTP_IF_NONE_MATCH", "")
    if etag in sent or sent.strip() == "*":  # The quotes belong to the tag, so no list need be parsed.
        response.status_code = 304
        response.content = b""
        del response.headers["Content-Type"]
