"""Checks of a request's head before anything parses it, for the API and for pages."""

from django.conf import settings
from django.http import HttpRequest

from petstore.api.client_ip import parse, trusted_hops
from petstore.api.errors import ApiError, ErrorCode

MAX_HEADER_LENGTH = 8_192  # Bytes of a header, its lines together (D30).
MAX_CONTENT_TYPE_LENGTH = 256  # Bytes; its parameters are parsed in quadratic time.

# Stands for a value that granian can't decode; never valid, since values are ASCII.
UNREADABLE = "\xff"
PROBLEM = "petstore.problem"  # META key: arguments of the ApiError for a malformed head.
BODY_ERROR = "petstore.body_error"  # META key: the ApiError of a body that failed to arrive.

COOKIES_UNREADABLE = (
    "Your browser sent a cookie with characters that can't be read, so you are signed out. "
    "Delete the cookies of this site, then sign in again."
)


def invalid_header(message: str) -> tuple[ErrorCode, str]:
    return ErrorCode.INVALID_PARAMETER, message


def too_long(header: str) -> tuple[ErrorCode, str]:
    """Describe the problem of a header, whose name is in lower case."""
    is_cookie = header == "cookie"
    to_do = "Delete the cookies of this site, then try again." if is_cookie else "Send a shorter one."
    return ErrorCode.HEADERS_TOO_LARGE, f"The header {header[:64]} is longer than 8,192 bytes. {to_do}"


FORWARDED = invalid_header(
    "X-Forwarded-For does not have an address for each proxy in front of the service. Leave it out."
)


def check_head(request: HttpRequest) -> None:
    """Raise ApiError 431 or 400 for a malformed head, regardless of the key (D17)."""
    if PROBLEM in request.META:
        raise ApiError(*request.META[PROBLEM])
    if settings.TRUSTED_PROXY_COUNT and "HTTP_X_FORWARDED_FOR" in request.META:
        hops = trusted_hops(request)
        if len(hops) < settings.TRUSTED_PROXY_COUNT or None in map(parse, hops):
            raise ApiError(*FORWARDED)


def check_content(request: HttpRequest) -> None:
    """Raise ApiError 415 for a Content-Type that is too long to parse, or for a compressed body."""
    meta = request.META
    if len(meta.get("CONTENT_TYPE", "")) > MAX_CONTENT_TYPE_LENGTH:
        message = f"The Content-Type is longer than {MAX_CONTENT_TYPE_LENGTH} bytes. Send a shorter one."
        raise ApiError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, message)
    encoding = meta.get("HTTP_CONTENT_ENCODING", "identity")
    if encoding.lower() != "identity" and meta.get("CONTENT_LENGTH") not in {None, "", "0"}:
        message = "The body has a Content-Encoding. Send it without compression."
        headers = {"Accept-Encoding": "identity"}  # RFC 9110 section 15.5.16.
        raise ApiError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, message, headers=headers)


def has_unreadable_cookies(request: HttpRequest) -> bool:
    return bool(request.META.get("HTTP_COOKIE") == UNREADABLE)
