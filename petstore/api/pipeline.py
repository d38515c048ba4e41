"""The entry of every request under /v1, and the only place for what DRF never sees.

`ApiPipeline` is the outermost middleware and calls the views itself, without the sessions, CSRF tokens,
redirects and host checks that pages need. The steps of a request are those of `ApiView.initial`.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.urls import ResolverMatch, resolve
from rest_framework.settings import api_settings

from petstore.api.context import RequestContext
from petstore.api.errors import build_error_response
from petstore.api.response_headers import add_headers
from petstore.api.responses import Response
from petstore.observability import tracing
from petstore.observability.instrumentation import InstrumentedHandler

GetResponse = Callable[[HttpRequest], HttpResponseBase]

MAX_CACHED_PATH = 100  # Characters; every valid path is shorter.


def is_api_path(path: str) -> bool:
    return path.startswith("/v1/") or path == "/v1"


class ApiPipeline:
    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._instrumented = InstrumentedHandler(tracing.trace_requests(call_view))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_api_path(request.path_info):
            return self.respond(request).to_django()
        return self._get_response(request)

    def respond(self, request: HttpRequest) -> Response:
        """Serve, log and measure a request under /v1. The event loop bypasses Django and calls this."""
        context = RequestContext.start(request)
        return self._instrumented(request, context)


def call_view(request: HttpRequest) -> Response:
    """Call the view of the path; unknown paths have one, too. Every exception becomes an Error (D29)."""
    try:
        request.resolver_match, parameters = find_view(request.path_info)
        response: Response = request.resolver_match.func(request, **parameters)
    except Exception as error:  # noqa: BLE001  Of the resolver, or of DRF outside the view's steps.
        response = build_error_response(error)
        add_headers(request, response)
    throttle_class: Any = api_settings.DEFAULT_THROTTLE_CLASSES[0]
    throttle_class.record_response(request, response.status_code)
    return response


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
