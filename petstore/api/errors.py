"""The closed list of error codes (D30), and the conversion of exceptions to Errors (D29)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NotRequired, TypedDict

import psycopg
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from django.http import Http404
from psycopg.errors import IdleInTransactionSessionTimeout, ReadOnlySqlTransaction
from rest_framework import exceptions

from petstore.api.link_header import format_link, get_page_url
from petstore.api.responses import Response
from petstore.db.monitor import DatabaseUnavailableError
from petstore.observability import logs

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2  # Retry-After of a 503 under /v1.


class ErrorCode(Enum):
    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message

    @property
    def value(self) -> str:
        return self.name.lower()

    MISSING_API_KEY = 401, "No API key was sent. Send it as `Authorization: Bearer <key>`."
    INVALID_API_KEY = 401, "The API key is not valid. Check that it is complete and has not been revoked."
    EXPIRED_API_KEY = 401, "The API key has expired. Use its replacement, or issue a new key."
    INSUFFICIENT_SCOPE = 403, "The API key lacks the scope for this operation. Use a key that has it."
    ACCOUNT_SUSPENDED = (
        403,
        "The account of this API key is suspended. Contact us; the key works again once it is reinstated.",
    )
    MALFORMED_JSON = 400, "The body is not valid JSON. Send one JSON object in UTF-8."
    MISSING_FIELD = 400, "A required field is missing. See `details`."
    INVALID_FIELD = 400, "A field has an invalid value. See `details`."
    UNKNOWN_CATEGORY = 400, "No category has the id in `categoryId`. List them with GET /categories."
    INVALID_PARAMETER = 400, "A parameter has an invalid value. Correct it and send the request again."
    PET_NOT_FOUND = 404, "No pet has this id. List the pets with GET /pets."
    ORDER_NOT_FOUND = 404, "Your account has no order with this id. List yours with GET /store/orders."
    RESOURCE_NOT_FOUND = 404, "There is nothing at this path. See /docs for all paths."
    METHOD_NOT_ALLOWED = 405, "This path does not support the method. See the Allow header."
    REQUEST_TIMEOUT = 408, "The body did not arrive in time. Send the request again, without pauses."
    UNSUPPORTED_MEDIA_TYPE = 415, "The body must be JSON. Send it with `Content-Type: application/json`."
    PAYLOAD_TOO_LARGE = 413, "The body is larger than 64 KiB. Send a smaller one."
    PET_NOT_AVAILABLE = 409, "The pet is not available. Choose one with GET /pets?status=available."
    ORDER_NOT_CANCELLABLE = 409, "The order can no longer be cancelled: it is approved or delivered."
    IDEMPOTENCY_KEY_REUSED = (
        422,
        "This Idempotency-Key was already used for a different request. Use a new one.",
    )
    IDEMPOTENCY_KEY_IN_USE = (
        409,
        "The first request with this Idempotency-Key is still running. Try again in a moment.",
    )
    RATE_LIMIT_EXCEEDED = (
        429,
        "The limit of requests per minute is used up. Wait as long as Retry-After says.",
    )
    DAILY_QUOTA_EXCEEDED = (
        429,
        "The limit of requests per day is used up. Wait as long as Retry-After says.",
    )
    API_KEY_BANNED = (
        429,
        "The API key is banned because it kept sending after 429. Wait as long as Retry-After says.",
    )
    ENDPOINT_REMOVED = 410, "This operation was removed. Use GET /pets with the `status` filter."
    CURSOR_EXPIRED = (
        410,
        "The events after this point have been deleted. Start over without `cursor` and `since`.",
    )
    HEADERS_TOO_LARGE = 431, "A header is longer than 8,192 bytes. Send a shorter one."
    URI_TOO_LONG = 414, "The URL is longer than 8,192 bytes. Send a shorter one."
    SERVICE_UNAVAILABLE = (
        503,
        "The service is temporarily unavailable. Wait as long as Retry-After says, then try again.",
    )
    INTERNAL_ERROR = 500, "The service failed. Try again later, and report the X-Request-Id if it persists."


class Detail(TypedDict):
    """One problem in a body (D29)."""

    field: str
    code: str
    message: str
    index: NotRequired[int]  # Of the item with the problem, in a list.


class ApiError(exceptions.APIException):
    def __init__(
        self,
        code: ErrorCode,
        message: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        details: Sequence[Detail] = (),
    ) -> None:
        self.code = code
        self.status_code = code.status
        self.message = message or code.message
        self.headers = {"WWW-Authenticate": "Bearer"} if code.status == 401 else {}
        self.headers |= headers or {}
        self.details = list(details)
        super().__init__(self.message, code.value)


def invalid_parameter(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_PARAMETER, message)


def build_error_body(code: ErrorCode, message: str = "", details: Sequence[Detail] = ()) -> dict[str, Any]:
    body = {"code": code.value, "message": message or code.message, "status": code.status}
    return body | ({"details": list(details)} if details else {})


def build_help_link(code: ErrorCode) -> str:
    return format_link(get_page_url(f"docs/errors#{code.value}"), "help")


def build_error_response(exc: Exception, context: object = None) -> Response:
    """Convert every exception to an Error (D29). Also DRF's EXCEPTION_HANDLER, which gets a context."""
    error = exc if isinstance(exc, ApiError) else convert_exception(exc)
    if error.code.status >= 500:
        log_failure(exc, error.code)
    body = build_error_body(error.code, error.message, error.details)
    headers = {**error.headers, "Link": build_help_link(error.code)}
    return Response(body, error.code.status, headers)


def log_failure(exc: Exception, code: ErrorCode) -> None:
    """Log a bug with its traceback, and any other failure in one line.

    The database monitor logs an outage once, so the requests that it causes to fail are not logged.
    """
    request_id = logs.request_id.get(None)
    if code is ErrorCode.INTERNAL_ERROR:
        logger.error("%s on request %s", code.value, request_id, exc_info=exc)
    elif not isinstance(exc, DatabaseUnavailableError):
        reason = " ".join(str(exc).split())
        logger.error("%s on request %s: %s: %s", code.value, request_id, type(exc).__name__, reason)


def convert_exception(exc: Exception) -> ApiError:
    """Convert an exception of Django, DRF or the database. One that is not listed is a bug (500)."""
    match exc:
        case exceptions.ValidationError():
            return convert_validation_error(exc)
        case exceptions.UnsupportedMediaType():
            return ApiError(ErrorCode.UNSUPPORTED_MEDIA_TYPE)
        case exceptions.ParseError():
            return ApiError(ErrorCode.MALFORMED_JSON)
        case exceptions.NotFound() | Http404():
            return ApiError(ErrorCode.RESOURCE_NOT_FOUND)
        case exceptions.PermissionDenied() | PermissionDenied():
            return ApiError(ErrorCode.INSUFFICIENT_SCOPE)
        case RequestDataTooBig():
            return ApiError(ErrorCode.PAYLOAD_TOO_LARGE)
        case SuspiciousOperation():  # Such as too many query parameters.
            return invalid_parameter("The query string is invalid. Correct it and send the request again.")
        case InterfaceError() | DatabaseError() if _may_succeed_later(exc):
            return ApiError(ErrorCode.SERVICE_UNAVAILABLE, headers={"Retry-After": str(RETRY_SECONDS)})
        case _:
            return ApiError(ErrorCode.INTERNAL_ERROR)


def _may_succeed_later(exc: Exception) -> bool:
    """Return whether the request may succeed if it is sent again.

    An IntegrityError that no view handles comes from a race between requests. psycopg raises no
    OperationalError for a server that became a standby or an idle transaction that timed out, and a bare
    DatabaseError for a connection that broke in the middle of a response (libpq sets no SQLSTATE).
    """
    return (
        isinstance(exc, OperationalError | InterfaceError | IntegrityError)
        or isinstance(exc.__cause__, ReadOnlySqlTransaction | IdleInTransactionSessionTimeout)
        or type(exc.__cause__) is psycopg.DatabaseError
    )


DETAIL_CODES = {"required": ErrorCode.MISSING_FIELD, "unknown_category": ErrorCode.UNKNOWN_CATEGORY}


def convert_validation_error(exc: exceptions.ValidationError) -> ApiError:
    """List all problems of an object in `details`; the Error's code is that of the most basic one."""
    problems_by_field = exc.get_full_details()
    if not isinstance(problems_by_field, dict) or "non_field_errors" in problems_by_field:
        return ApiError(ErrorCode.MALFORMED_JSON, "The body must be a JSON object.")
    details: list[Detail] = []
    codes: list[ErrorCode] = []
    for field, index, problem in flatten_problems(problems_by_field):
        code = DETAIL_CODES.get(problem["code"], ErrorCode.INVALID_FIELD)
        codes.append(code)
        detail: Detail = {"field": field, "code": code.value, "message": str(problem["message"])}
        if index is not None:
            detail["index"] = index
        details.append(detail)
    precedence = [ErrorCode.MISSING_FIELD, ErrorCode.INVALID_FIELD, ErrorCode.UNKNOWN_CATEGORY]
    return ApiError(min(codes, key=precedence.index), details=details)


def flatten_problems(
    problems_by_field: Any, index: int | None = None
) -> Iterator[tuple[str, int | None, Any]]:
    """Yield field, index and problem. The index is that of the item, for a problem in a list of objects."""
    for field, problems in problems_by_field.items():
        if isinstance(problems, list):
            yield from ((str(field), index, problem) for problem in problems)
            continue
        for position, nested in problems.items():  # Of a ListField.
            if not isinstance(nested, dict):  # It is null.
                nested = {field: nested}  # noqa: PLW2901
            elif "non_field_errors" in nested:  # It is no object.
                nested = {field: nested["non_field_errors"]}  # noqa: PLW2901
            yield from flatten_problems(nested, int(position))
