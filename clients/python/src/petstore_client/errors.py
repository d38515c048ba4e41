"""Errors and warnings, and the rate limit that each response reports."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Literal

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


class ApiError(PetstoreError):
    """A response with a status of 400 and up.

    `code` is an ErrorCode, one that was added later, or `http_502` and the like for a response that is
    not from the service. `retry_after` is in seconds, and ends at `retry_at`.
    """

    def __init__(
        self,
        status: int,
        code: ErrorCode | str,
        message: str,
        *,
        details: tuple[ErrorDetail, ...] = (),
        request_id: str | None = None,
        retry_after: float | None = None,
        quota: RateLimit | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.request_id = request_id
        self.retry_after = retry_after
        self.retry_at: datetime | None = None
        if retry_after is not None:
            self.retry_at = datetime.now(timezone.utc) + timedelta(seconds=retry_after)
        self.quota = quota


class RateLimitError(ApiError):
    """A 429 whose wait exceeds `max_wait`, or that came again after each retry.

    Requests that would be sent during that wait raise it as well, without being sent.
    """


class ApiDeprecationWarning(FutureWarning):
    """The API announced that an operation will be removed."""


class EventsLostWarning(UserWarning):
    """Events were deleted before `events.follow` read them."""
