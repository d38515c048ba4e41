"""Django's error handlers."""

from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from petstore.api.errors import ApiError, ErrorCode, build_error_response
from petstore.api.pipeline import is_api_path
from petstore.api.request_headers import COOKIES_UNREADABLE, has_unreadable_cookies
from petstore.site.docs import get_context
from petstore.site.search import suggest_pages
from petstore.text import FORM_TOO_LARGE

# The error code under /v1 and the text of the page, by status.
RESPONSES = {
    400: (ErrorCode.INVALID_PARAMETER, "The server could not read the request. Go back and try again."),
    403: (ErrorCode.INSUFFICIENT_SCOPE, "Your role can't open this page. Ask an Owner."),
    404: (ErrorCode.RESOURCE_NOT_FOUND, "This page does not exist."),
    500: (ErrorCode.INTERNAL_ERROR, "Something went wrong on our side. Try again in a few minutes."),
}

SAFE_METHODS = ("GET", "HEAD")  # Of people who follow a link.
PAGE_EXPIRED = (
    "Nothing was saved, because the page has expired. You may have signed in or out in another tab. "
    "Go back, reload the page, and try again."
)
FOREIGN_FORM = (
    "Nothing was saved, because your browser says that the form is from {}, but this service is at {}. "
    "Open it there. If you operate the service, set BASE_URL to the address that browsers use."
)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Reject a form that fails the CSRF check (CSRF_FAILURE_VIEW)."""
    if has_unreadable_cookies(request):
        text = COOKIES_UNREADABLE
    elif reason.startswith(("Origin checking", "Referer checking")):
        sender = request.headers.get("Origin") or request.headers.get("Referer") or "an unknown address"
        text = FOREIGN_FORM.format(sender[:200], settings.ORIGIN)
    else:
        text = PAGE_EXPIRED
    context = {"title": HTTPStatus.FORBIDDEN.phrase, "text": text}
    return render(request, "error.html", context, status=HTTPStatus.FORBIDDEN)


def render_too_large(request: HttpRequest) -> HttpResponse:
    context = {"title": "Too large", "text": FORM_TOO_LARGE}
    return render(request, "error.html", context, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def error_page(request: HttpRequest, exception: Exception | None = None, *, status: int) -> HttpResponse:
    code, text = RESPONSES[status]
    if is_api_path(request.path_info):  # Only if the pipeline itself has failed.
        return build_error_response(ApiError(code)).to_django()
    if isinstance(exception, RequestDataTooBig | TooManyFieldsSent | TooManyFilesSent):
        return render_too_large(request)
    context = {"title": HTTPStatus(status).phrase, "text": text}
    if status == HTTPStatus.NOT_FOUND:
        pages = suggest_pages(request.path_info) if request.method in SAFE_METHODS else []
        context = get_context() | {"title": "Page not found", "pages": pages}
        return render(request, "docs/not-found.html", context, status=status)
    return render(request, "error.html", context, status=status)
