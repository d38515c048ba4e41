"""What wraps every response. One duty for each class."""

import re
from collections.abc import Callable
from functools import lru_cache
from random import getrandbits

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import ResolverMatch, resolve
from django.utils.cache import set_response_etag
from django.utils.http import parse_etags

from petstore.observability.draining import is_draining

GetResponse = Callable[[HttpRequest], HttpResponseBase]

PROBES = {"/healthz", "/readyz", "/metrics"}

WELL_FORMED_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def is_api(request: HttpRequest) -> bool:
    """Tell whether a path is under /v1, known or not."""
    return is_api_path(request.path_info)


def is_api_path(path: str) -> bool:
    """Tell whether a path is under /v1."""
    return path.startswith("/v1/") or path == "/v1"


def request_id(sent: str) -> str:
    """Return the id that a client sent, if it is well-formed, or a new one (D29)."""
    return sent if WELL_FORMED_ID.fullmatch(sent) else f"{getrandbits(128):032x}"


class RequestIdMiddleware:
    """Gives each request an id, and each response X-Request-Id (D29); a well-formed one is kept."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the id."""
        kept = request.META["REQUEST_ID"] = request_id(request.META.get("HTTP_X_REQUEST_ID", ""))
        response = self.get_response(request)
        response["X-Request-Id"] = kept
        return response


class ConditionalGetMiddleware:
    """Gives API reads an ETag and answers If-None-Match with 304 (D32, RFC 9110 section 13.1.2)."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the version or with 304."""
        response = self.get_response(request)
        if not is_api(request):
            return response
        response["Vary"] = "Authorization"
        if response.status_code != 200 or request.method not in {"GET", "HEAD"}:
            response["Cache-Control"] = "no-store"
            return response
        assert isinstance(response, HttpResponse)
        response["Cache-Control"] = "private, no-cache"  # A client may keep it, and must ask again.
        set_response_etag(response)
        wanted = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
        if "*" in wanted or response["ETag"] in (tag.removeprefix("W/") for tag in wanted):
            response.status_code = 304
            response.content = b""
            del response["Content-Type"]
        return response


class ContentLengthMiddleware:
    """Says how long an answer is, so that the server need not send it in chunks (RFC 9110 section 8.6).

    And that its type is no guess: a browser that somebody leads to an Error must not take it for a page.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the length."""
        response = self.get_response(request)
        response["X-Content-Type-Options"] = "nosniff"
        if isinstance(response, HttpResponse) and response.status_code not in {204, 304}:
            response["Content-Length"] = str(len(response.content))
        return response


class PermissionsPolicyMiddleware:
    """Denies the pages what none of them uses, whatever may come to run in one (W3C Permissions Policy)."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the policy."""
        response = self.get_response(request)
        response["Permissions-Policy"] = settings.PERMISSIONS_POLICY
        return response


resolve_kept = lru_cache(maxsize=256)(resolve)  # Finding a view took a tenth of a request.


def resolve_path(path: str) -> ResolverMatch:
    """Return the view of a path. Raises Resolver404."""
    return resolve_kept(path) if len(path) < 100 else resolve(path)


class ApiShortcutMiddleware:
    """Calls the views of programs at once: what stands further in serves pages only.

    Under /v1 there is no session, no form token, no redirect and no Host to check, and a request would pay
    for each of them. Load balancers and Prometheus ask by address, so they don't know the service's Host.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer with the view, or go on."""
        if not is_api(request) and request.path_info not in PROBES:
            return self.get_response(request)
        view = request.resolver_match = resolve_path(request.path_info)
        response: HttpResponse = view.func(request, *view.args, **view.kwargs)
        if isinstance(response, SimpleTemplateResponse):
            response.render()
            part(response)
        return response


def part(response: SimpleTemplateResponse) -> None:
    """Part a rendered response from its view and its request.

    DRF lets the three know each other, so they would all wait for the collector, 20 KB for each request.
    """
    context = getattr(response, "renderer_context", None)
    if context:
        vars(context["view"]).clear()
        context["request"].parser_context.clear()
        context.clear()


class DrainingMiddleware:
    """Ends a connection with its answer while draining (RFC 9112 section 9.6).

    One that stayed open would be cut when the port closes, perhaps just as a client sends its next request.
    """

    def __init__(self, get_response: GetResponse) -> None:
        if not settings.DRAIN_SECONDS:
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer."""
        response = self.get_response(request)
        if is_draining():
            response["Connection"] = "close"
        return response
