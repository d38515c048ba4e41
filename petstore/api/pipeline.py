"""The request pipeline: the steps of every request under /v1, in the order of the contract.

`ApiPipeline` is the outermost middleware and serves these requests itself, without the sessions, CSRF
tokens, redirects and host checks that pages need. The steps store their results in the `RequestContext`.
This layer may not import accounts, so accounts registers its steps as `Steps`.
"""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import ClassVar, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.urls import ResolverMatch, resolve

from petstore.api.context import RequestContext, get_operation
from petstore.api.errors import ApiError, ErrorCode, build_error_response
from petstore.api.request_headers import check_content, check_head
from petstore.api.responses import Response, make_conditional
from petstore.observability import tracing
from petstore.observability.instrumentation import InstrumentedHandler

logger = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase]

MAX_CACHED_PATH = 100  # Characters; every valid path is shorter.


class Steps(NamedTuple):
    """The steps of accounts, set in accounts/apps.py. They raise ApiError to reject a request."""

    check_key_format: Callable[[str], object]  # Checks the Authorization header without a store.
    authenticate: Callable[[HttpRequest, RequestContext], None]  # Sets the caller and the decision.
    throttle: Callable[[HttpRequest, RequestContext], None]  # Applies the decision.
    record_missing_scope: Callable[[HttpRequest, RequestContext, str], None]  # For the rejection log.
    get_quota_headers: Callable[[HttpRequest, RequestContext], Mapping[str, str]]  # Of each response (D23).
    get_unused_quota_headers: Callable[[], Mapping[str, str]]  # For requests that were not counted.


def is_api_path(path: str) -> bool:
    return path.startswith("/v1/") or path == "/v1"


class ApiPipeline:
    steps: ClassVar[Steps]

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._instrumented = InstrumentedHandler(tracing.trace_requests(self._respond))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_api_path(request.path_info):
            return self.respond(request).to_django()
        return self._get_response(request)

    def respond(self, request: HttpRequest) -> Response:
        """Serve, log and measure a request under /v1. The event loop bypasses Django and calls this."""
        context = RequestContext.start(request)
        return self._instrumented(request, context)

    def _respond(self, request: HttpRequest) -> Response:
        context = RequestContext.get(request)
        try:
            response = self._call_view(request, context)
        except Exception as error:  # noqa: BLE001  Every exception becomes an Error (D29).
            response = build_error_response(error)
        self._add_headers(request, context, response)
        return response

    def _call_view(self, request: HttpRequest, context: RequestContext) -> Response:
        match, parameters = find_view(request.path_info)
        request.resolver_match = match
        context.operation = get_operation(match.func, request.method)
        try:
            check_head(request)
            self.steps.authenticate(request, context)  # Also on unknown paths (D17).
        finally:
            self.steps.throttle(request, context)  # Also without a valid key, to count the address.
        check_url_length(request)
        self._check_scope(context.operation.scope, request, context)
        check_content(request)
        response: Response = match.func(request, **parameters)
        return response

    def _add_headers(self, request: HttpRequest, context: RequestContext, response: Response) -> None:
        headers = response.headers
        headers["X-Request-Id"] = context.id
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Vary"] = "Authorization"
        if context.operation.deprecation is not None:
            context.operation.deprecation.add_headers(response)
        headers.update(self._get_quota_headers(request, context))
        if response.status_code == 200 and request.method in {"GET", "HEAD"}:
            make_conditional(request, response)
        else:
            headers["Cache-Control"] = "no-store"
        if response.status_code not in {204, 304}:
            headers["Content-Length"] = str(len(response.content))  # Avoids chunked encoding.

    def _check_scope(self, scope: str | None, request: HttpRequest, context: RequestContext) -> None:
        if scope is not None and (context.caller is None or scope not in context.caller.scopes):
            self.steps.record_missing_scope(request, context, scope)
            message = f"The API key lacks the scope {scope}. Use a key that has it."
            raise ApiError(ErrorCode.INSUFFICIENT_SCOPE, message)

    def _get_quota_headers(self, request: HttpRequest, context: RequestContext) -> Mapping[str, str]:
        """Return the quota headers, or on failure those of an unused quota."""
        try:
            return self.steps.get_quota_headers(request, context)
        except Exception:
            logger.exception("Building the quota headers failed; the response reports an unused quota.")
            return self.steps.get_unused_quota_headers()


@lru_cache(maxsize=256)
def resolve_cached(path: str) -> ResolverMatch:
    return resolve(path, settings.API_URLCONF)


def find_view(path: str) -> tuple[ResolverMatch, Mapping[str, str]]:
    """Resolve a path under /v1 to its view and parameters.

    Paths that differ only in a number at the end share one cache entry.
    """
    if len(path) >= MAX_CACHED_PATH:
        match = resolve(path, settings.API_URLCONF)
        return match, match.kwargs
    parent, _, segment = path.rpartition("/")
    if segment.isdecimal():
        match = resolve_cached(f"{parent}/0")
        return match, {name: segment if value == "0" else value for name, value in match.kwargs.items()}
    match = resolve_cached(path)
    return match, match.kwargs


def check_url_length(request: HttpRequest) -> None:
    meta = request.META
    if len(meta.get("PATH_INFO", "")) + len(meta.get("QUERY_STRING", "")) > settings.MAX_URL_BYTES:
        raise ApiError(ErrorCode.URI_TOO_LONG)
