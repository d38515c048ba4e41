"""Authenticates requests by API key (D16 to D20)."""

from time import monotonic
from typing import Any

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectionReason
from accounts.keys.key_format import ParsedKey
from accounts.models import get_key_mode
from accounts.quota import anonymous, store
from accounts.usage import write_behind
from accounts.usage.rejection_log import RejectedRequest
from petstore.api.client_ip import get_client_address
from petstore.api.context import RequestContext
from petstore.api.errors import ApiError, ErrorCode
from petstore.db import replicas
from petstore.observability.metrics import KEYS_REJECTED

WRONG_NETWORK = "This API key may not be used from your network address. Use it from one that it allows."

# These clients have proved that they have the secret, so their rejections are logged.
KEY_ERRORS = {
    KeyRejectionReason.REVOKED: (ErrorCode.INVALID_API_KEY, ""),
    KeyRejectionReason.EXPIRED: (ErrorCode.EXPIRED_API_KEY, ""),
    KeyRejectionReason.NETWORK_NOT_ALLOWED: (ErrorCode.INVALID_API_KEY, WRONG_NETWORK),
    KeyRejectionReason.SUSPENDED: (ErrorCode.ACCOUNT_SUSPENDED, ""),
}


def authenticate(request: HttpRequest, context: RequestContext) -> None:
    """Authenticate the bearer token (RFC 6750 section 2.1). A step of the request pipeline.

    The quota store authenticates and counts; `throttle` enforces its decision later. A free operation only
    peeks. A malformed key never reaches the store. Raises ApiError 401, 403 for a suspended account, 429
    for a throttled lookup.
    """
    key = parse_authorization(request.META.get("HTTP_AUTHORIZATION", ""))
    may_write = request.method not in {"GET", "HEAD"}
    if may_write and replicas.ALIASES:
        context.write_began = monotonic()
    try:
        if context.operation.free:
            result = store.peek(key, get_client_address(request))
        else:
            result = store.admit(key, get_client_address(request), may_write=may_write)
    except Exception:
        # The key may be valid, so the request must not count for its client address.
        context.decision = anonymous.peek(request)
        raise
    if result.rejection is None:
        context.caller, context.decision = result.caller, result.decision
        return
    KEYS_REJECTED.labels(result.rejection.value).inc()
    if result.rejection is KeyRejectionReason.LOOKUP_THROTTLED:  # `throttle` raises a more precise 429.
        raise ApiError(ErrorCode.RATE_LIMIT_EXCEEDED, headers={"Retry-After": "1"})
    if result.rejection is KeyRejectionReason.UNKNOWN:  # Perhaps invented, so it is not logged.
        raise ApiError(ErrorCode.INVALID_API_KEY)
    rejected = RejectedRequest.from_request(request, context, key.public_id, result.rejection.value)
    write_behind.recorder.record_rejection(rejected)
    raise ApiError(*KEY_ERRORS[result.rejection])


def record_missing_scope(request: HttpRequest, context: RequestContext, scope: str) -> None:
    """Record a 403 for the rejection log. A step of the request pipeline."""
    if context.caller is not None:
        rejected = RejectedRequest.from_request(
            request, context, context.caller.public_id, "insufficient_scope", scope=scope
        )
        write_behind.recorder.record_rejection(rejected)


class BearerKeyAuthentication(BaseAuthentication):
    """Passes the authenticated caller to DRF."""

    def authenticate(self, request: Request) -> tuple[Any, Any]:
        caller = RequestContext.get(request._request).caller
        return caller, caller


def parse_authorization(header: str) -> ParsedKey:
    """Parse an Authorization header. Raises ApiError 401."""
    if not header.strip():
        raise ApiError(ErrorCode.MISSING_API_KEY)
    scheme, _, token = header.strip().partition(" ")
    key = key_format.parse(token.strip(" ")) if scheme.lower() == "bearer" else None
    if key is None or key.mode != get_key_mode():
        raise ApiError(ErrorCode.INVALID_API_KEY)
    return key
