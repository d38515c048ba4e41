"""What wraps the answers outside /v1, which petstore/api/pipeline.py answers. One duty for each class."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import resolve
from django.utils.deprecation import MiddlewareMixin

from petstore.api.context import RequestContext
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.request_headers import BODY_ERROR, check_content, check_head
from petstore.observability import tracing
from petstore.observability.instrumentation import InstrumentedHandler
from petstore.site.password_hashers import HashingBusyError

GetResponse = Callable[[HttpRequest], HttpResponseBase]

PROBES = {"/healthz", "/readyz", "/metrics"}


class MeasuringMiddleware:
    """Gives each request an id (D29), and has it counted, timed, traced and logged under it."""

    def __init__(self, get_response: GetResponse) -> None:
        self._measured = InstrumentedHandler(tracing.traced(get_response))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        context = RequestContext.start(request)
        response = self._measured(request, context)
        response["X-Request-Id"] = context.id
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


class HeadMiddleware(MiddlewareMixin):
    """Rejects what the gate rejects under /v1 before anything parses it, with a page for people."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        try:
            check_head(request)
            check_content(request)
        except ApiError as error:
            context = {"title": HTTPStatus(error.status_code).phrase, "text": error.message}
            response = render(request, "error.html", context, status=error.status_code)
            for name, value in error.headers.items():
                response[name] = value
            return response
        return None


class ProbesMiddleware(MiddlewareMixin):
    """Answers load balancers and Prometheus at once: they ask by address, so they don't know our Host."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.path_info not in PROBES:
            return None
        try:
            check_head(request)
        except ApiError as error:
            return HttpResponse(f"{error.message}\n", "text/plain", error.status_code)
        view = request.resolver_match = resolve(request.path_info, settings.API_URLCONF)
        response: HttpResponse = view.func(request, *view.args, **view.kwargs)
        return response


class PermissionsPolicyMiddleware(MiddlewareMixin):
    """Denies the pages what none of them uses, whatever may come to run in one (W3C Permissions Policy)."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response["Permissions-Policy"] = settings.PERMISSIONS_POLICY
        return response


BUSY_SECONDS = 10
BUSY_TEXT = (
    "Too many people are signing in or choosing a password right now, so yours was not checked. "
    f"Wait {BUSY_SECONDS} seconds, go back, and try again."
)


class HashingBusyMiddleware(MiddlewareMixin):
    """Responds with 503 to a form that would have had to wait too long for a password hash."""

    def process_view(self, request: HttpRequest, *view: Any) -> HttpResponse | None:
        error = request.META.get(BODY_ERROR)
        return busy(request) if error and error.error is ErrorCode.SERVICE_UNAVAILABLE else None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return busy(request) if isinstance(exception, HashingBusyError) else None


def busy(request: HttpRequest) -> HttpResponse:
    response = render(request, "error.html", {"title": "Not done", "text": BUSY_TEXT}, status=503)
    response["Retry-After"] = str(BUSY_SECONDS)
    return response
