"""Errors and warnings, and the rate limit that each response reports."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Literal

import urllib3

from petstore_client.models import decode

ErrorCode = Literal[
    "missing_api_key", "invalid_api_key", "expired_api_key", "insufficient_scope", "account_suspended",
    "malformed_json", "missing_field", "invalid_field", "unknown_category", "invalid_parameter",
    "pet_not_found", "order_not_found", "resource_not_found", "method_not_allowed", "request_timeout",
    "unsupported_media_type", "payload_too_large", "pet_not_available", "order_not_cancellable",
    "idempotency_key_reused", "idempotency_key_in_use", "rate_limit_exceeded", "daily_quota_exceeded",
    "api_key_banned", "endpoint_removed", "cursor_expired", "headers_too_large", "uri_too_long",
    "service_unavailable", "internal_error",
]  # fmt: skip


@dataclass(frozen=True)
class RateLimit:
    """The window with the fewest remaining requests, as the latest response reported it."""

    limit: int
    remaining: int
    resets_at: datetime

    @classmethod
    def parse(cls, headers: Mapping[str, str]) -> "RateLimit | None":
        names = (f"X-RateLimit-{name}" for name in ("Limit", "Remaining", "Reset"))
        try:
            limit, remaining, reset = (int(headers[name]) for name in names)
        except (KeyError, ValueError):
            return None
        return cls(limit, remaining, datetime.fromtimestamp(reset, timezone.utc))


@dataclass(frozen=True)
class ErrorDetail:
    """A problem of a request body. `index` is the position of the pet in a batch."""

    field: str
    code: str
    message: str
    index: int | None = None


class PetstoreError(Exception):
    """Base class of all errors of this package."""


class ConnectionFailedError(PetstoreError):
    """No response arrived. The request may have been carried out."""


class WebhookError(PetstoreError):
    """The webhook is not signed with any of the secrets, or is too old. Respond with 400."""


@dataclass(eq=False, repr=False)
class ApiError(PetstoreError):
    """A response with a status of 400 and up.

    `code` is an ErrorCode, one that was added later, or `http_502` and the like for a response that is
    not from the service. `retry_after` is in seconds, and ends at `retry_at`.
    """

    status: int
    code: ErrorCode | str
    message: str
    details: tuple[ErrorDetail, ...] = ()
    request_id: str | None = None
    retry_after: float | None = None
    quota: RateLimit | None = None
    retry_at: datetime | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        super().__init__(f"{self.status} {self.code}: {self.message}")
        if self.retry_after is not None:
            self.retry_at = datetime.now(timezone.utc) + timedelta(seconds=self.retry_after)


class RateLimitError(ApiError):
    """A 429 whose wait exceeds `max_wait`, or that came again after each retry.

    Requests that would be sent during that wait raise it as well, without being sent.
    """


def parse_error(response: urllib3.BaseHTTPResponse, data: bytes) -> ApiError:
    status, headers = response.status, response.headers
    try:
        body = json.loads(data)
        code, message = str(body["code"]), str(body["message"])
        details = tuple(decode(ErrorDetail, detail) for detail in body.get("details", ()))
    except (ValueError, KeyError, TypeError, AttributeError):
        code, message, details = f"http_{status}", response.reason or "No Error body.", ()
    retry_after = parse_retry_after(headers.get("Retry-After", ""))
    if status == 429 and retry_after is None:
        retry_after = 1.0  # Not from the service, which always says how long.
    kind = RateLimitError if status == 429 else ApiError
    request_id, quota = headers.get("X-Request-Id"), RateLimit.parse(headers)
    return kind(status, code, message, details, request_id, retry_after, quota)


def parse_retry_after(text: str) -> float | None:
    """Parse seconds or a date (RFC 9110 section 10.2.3); the service sends seconds, a proxy may not."""
    if text.isdecimal():
        return float(text)
    with suppress(TypeError, ValueError):
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0)
    return None


class ApiDeprecationWarning(FutureWarning):
    """The API announced that an operation will be removed."""


class EventsLostWarning(UserWarning):
    """Events were deleted before `events.follow` read them."""
