"""Middleware for everything outside /v1."""

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
from petstore.site.error_pages import render_too_large

GetResponse = Callable[[HttpRequest], HttpResponseBase]

UNTRUSTED_PROXY = (
    "The pages of this service need HTTPS, and no trusted proxy says that this request used it. Set "
    "TRUSTED_PROXY_COUNT to the number of proxies in front of the service. They must set X-Forwarded-Proto."
)
PROBES = {"/healthz", "/readyz", "/metrics"}


class InstrumentationMiddleware:
    """Sets the request ID (D29), and logs, measures and traces each request."""

    def __init__(self, get_response: GetResponse) -> None:
        self._instrumented = InstrumentedHandler(tracing.trace_requests(get_response))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        context = RequestContext.start(request)
        response = self._instrumented(request, context)
        response["X-Request-Id"] = context.id
        return response


class ContentLengthMiddleware(MiddlewareMixin):
    """Sets Content-Length to avoid chunked encoding (RFC 9110 section 8.6), and disables MIME sniffing."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response["X-Content-Type-Options"] = "nosniff"
        if isinstance(response, HttpResponse) and response.status_code not in {204, 304}:
            response["Content-Length"] = str(len(response.content))
        return response


class MalformedRequestMiddleware(MiddlewareMixin):
    """Rejects malformed headers and compressed bodies with a page. The pipeline does so under /v1."""

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
    """Serves health checks and metrics without ALLOWED_HOSTS, since probes send the IP address as Host."""

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


class RedirectLoopMiddleware(MiddlewareMixin):
    """Explains why the redirect to HTTPS would never end, instead of sending it.

    The last proxy may have received the request over HTTPS, but not be trusted, or not say so.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        # The first proxy of several names the scheme of the client.
        scheme = request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
        is_forwarded = not {"X-Forwarded-For", "Forwarded"}.isdisjoint(request.headers)
        may_be_https = scheme == "https" or (not scheme and is_forwarded)
        if settings.SECURE_SSL_REDIRECT and may_be_https and not request.is_secure():
            return HttpResponse(f"{UNTRUSTED_PROXY}\n", "text/plain", HTTPStatus.BAD_REQUEST)
        return None


class PermissionsPolicyMiddleware(MiddlewareMixin):
    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response["Permissions-Policy"] = settings.PERMISSIONS_POLICY
        return response


FORM_QUEUE_SECONDS = 5  # The maximum time in the queue of forms: see petstore/server/app.py.
BUSY_RETRY_SECONDS = 10
BUSY_TEXT = (
    "Too many people are signing in or choosing a password right now, so your form was not processed. "
    f"Wait {BUSY_RETRY_SECONDS} seconds, go back, and try again."
)


class UnreadFormMiddleware(MiddlewareMixin):
    """Responds to forms that the server has not read: with 503 if their queue was too long, else 413."""

    def process_view(self, request: HttpRequest, *view: Any) -> HttpResponse | None:
        error = request.META.get(BODY_ERROR)
        if error and error.code is ErrorCode.SERVICE_UNAVAILABLE:
            return render_busy_page(request)
        return render_too_large(request) if error else None


def render_busy_page(request: HttpRequest) -> HttpResponse:
    response = render(request, "error.html", {"title": "Try again later", "text": BUSY_TEXT}, status=503)
    response["Retry-After"] = str(BUSY_RETRY_SECONDS)
    return response
