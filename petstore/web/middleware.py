"""What wraps the answers outside /v1, which petstore/api/gate.py answers. One duty for each class."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import resolve
from django.utils.deprecation import MiddlewareMixin

from petstore.api.passage import Passage
from petstore.observability import tracing
from petstore.observability.requests import Measured

GetResponse = Callable[[HttpRequest], HttpResponseBase]

PROBES = {"/healthz", "/readyz", "/metrics"}


class MeasuringMiddleware:
    """Gives each request an id (D29), and has it counted, timed, traced and logged under it."""

    def __init__(self, get_response: GetResponse) -> None:
        self._measured = Measured(tracing.traced(get_response))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        passage = Passage.begin(request)
        response = self._measured(request, passage)
        response["X-Request-Id"] = passage.id
        return response


class ContentLengthMiddleware(MiddlewareMixin):
    """Says how long an answer is, so that the server need not send it in chunks (RFC 9110 section 8.6).

    And that its type is no guess.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response["X-Content-Type-Options"] = "nosniff"
        if isinstance(response, HttpResponse) and response.status_code not in {204, 304}:
            response["Content-Length"] = str(len(response.content))
        return response


class ProbesMiddleware(MiddlewareMixin):
    """Answers load balancers and Prometheus at once: they ask by address, so they don't know our Host."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.path_info not in PROBES:
            return None
        view = request.resolver_match = resolve(request.path_info, settings.API_URLCONF)
        response: HttpResponse = view.func(request, *view.args, **view.kwargs)
        return response


class PermissionsPolicyMiddleware(MiddlewareMixin):
    """Denies the pages what none of them uses, whatever may come to run in one (W3C Permissions Policy)."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response["Permissions-Policy"] = settings.PERMISSIONS_POLICY
        return response
