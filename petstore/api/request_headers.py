"""Checks of a request's headers, for the API and for pages."""

from django.conf import settings
from django.http import HttpRequest

from petstore.api.client_ip import get_trusted_hops, parse_address
from petstore.api.errors import ApiError, ErrorCode, invalid_parameter

MAX_HEADER_LENGTH = 8_192  # Bytes of a header, including all its lines (D30).
MAX_CONTENT_TYPE_LENGTH = 256  # Bytes; its parameters are parsed in quadratic time.

# Replaces values that granian can't decode. It is never valid, since values are ASCII.
UNREADABLE = "\xff"
# Keys of META.
HEAD_ERROR = "petstore.head_error"  # The ApiError for a malformed head.
BODY_ERROR = "petstore.body_error"  # The ApiError of a body that failed to arrive.

COOKIES_UNREADABLE = (
    "Your browser sent a cookie with characters that can't be read, so you are signed out. "
    "Delete the cookies of this site, then sign in again."
)


def header_too_long(header: str) -> ApiError:
    """Build the error for a header, whose name is in lower case."""
    if header == "cookie":
        remedy = "Delete the cookies of this site, then try again."
    else:
        remedy = "Send a shorter one."
    message = f"The header {header[:64]} is longer than 8,192 bytes. {remedy}"
    return ApiError(ErrorCode.HEADERS_TOO_LARGE, message)


def check_head(request: HttpRequest) -> None:
    """Raise ApiError 431 or 400 for a malformed head, regardless of the key (D17)."""
    if HEAD_ERROR in request.META:
        raise request.META[HEAD_ERROR]
    if settings.TRUSTED_PROXY_COUNT and "HTTP_X_FORWARDED_FOR" in request.META:
        hops = get_trusted_hops(request)
        if len(hops) < settings.TRUSTED_PROXY_COUNT or None in map(parse_address, hops):
            message = "X-Forwarded-For does not have an address for each proxy in front of the service."
            raise invalid_parameter(f"{message} Leave it out.")


def check_content(request: HttpRequest) -> None:
    """Raise ApiError 415 for a Content-Type that is too long to parse, or for a Content-Encoding."""
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
