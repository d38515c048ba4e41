"""What has no other answer: Django's handlers of errors."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from petstore.api.errors import ApiError, ErrorCode, answer_to
from petstore.api.gate import is_api_path

PAGE_TEXTS = {
    400: "The request could not be understood. Go back and try again.",
    403: "You may not see this page. Sign in as somebody who may.",
    404: "There is no such page. Check the address, or start at the home page.",
    500: "Something failed on our side. Try again in a few minutes.",
}


def error_page(request: HttpRequest, status: int, code: ErrorCode) -> HttpResponse:
    """Return the Error under /v1, and a page for people elsewhere."""
    if is_api_path(request.path_info):  # The gate itself has failed.
        return answer_to(ApiError(code)).as_django()
    context = {"title": HTTPStatus(status).phrase, "text": PAGE_TEXTS[status]}
    return render(request, "error.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400; Django's handler400."""
    return error_page(request, 400, ErrorCode.INVALID_PARAMETER)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403; Django's handler403."""
    return error_page(request, 403, ErrorCode.INSUFFICIENT_SCOPE)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404; Django's handler404."""
    return error_page(request, 404, ErrorCode.RESOURCE_NOT_FOUND)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 500; Django's handler500."""
    return error_page(request, 500, ErrorCode.INTERNAL_ERROR)
