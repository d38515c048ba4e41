"""What wraps every response. One duty for each class."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import resolve
from django.utils.cache import set_response_etag
from django.utils.http import parse_etags

GetResponse = Callable[[HttpRequest], HttpResponseBase]

WELL_FORMED_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def is_api(request: HttpRequest) -> bool:
    """Tell whether a path is under /v1, known or not."""
    path = request.path_info
    return path.startswith("/v1/") or path == "/v1"


class RequestIdMiddleware:
    """Gives each request an id, and each response X-Request-Id (D29); a well-formed one is kept."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the id."""
        sent = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = sent if WELL_FORMED_ID.fullmatch(sent) else uuid.uuid4().hex
        request.META["REQUEST_ID"] = request_id
        response = self.get_response(request)
        response["X-Request-Id"] = request_id
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
    """Says how long an answer is, so that the server need not send it in chunks (RFC 9110 section 8.6)."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the length."""
        response = self.get_response(request)
        if isinstance(response, HttpResponse) and response.status_code not in {204, 304}:
            response["Content-Length"] = str(len(response.content))
        return response


class ApiShortcutMiddleware:
    """Calls the API's views at once: what stands further in serves pages only.

    Under /v1 there is no session, no form token, no redirect and no Host to check, and a request would pay
    for each of them.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer with the view, or go on."""
        if not is_api(request):
            return self.get_response(request)
        view = request.resolver_match = resolve(request.path_info)
        response: HttpResponse = view.func(request, *view.args, **view.kwargs)
        return response.render() if isinstance(response, SimpleTemplateResponse) else response
