"""Authenticates requests by API key (D16 to D20)."""

from time import monotonic
from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectedError, KeyRejectionReason
from accounts.keys.key_format import ParsedKey
from accounts.models import get_key_mode
from accounts.quota import anonymous, store
from accounts.usage import write_behind
from accounts.usage.rejection_log import RejectedRequest
from petstore.api.client_ip import get_client_address
from petstore.api.context import RequestContext
from petstore.api.errors import ApiError, ErrorCode
from petstore.db import replicas
from petstore.observability.metrics import count_rejected_key

WRONG_NETWORK = "This API key may not be used from your network address. Use it from one that it allows."

# These clients have proved that they have the secret, so their rejections are logged.
KEY_ERRORS = {
    KeyRejectionReason.REVOKED: (ErrorCode.INVALID_API_KEY, ""),
    KeyRejectionReason.EXPIRED: (ErrorCode.EXPIRED_API_KEY, ""),
    KeyRejectionReason.NETWORK_NOT_ALLOWED: (ErrorCode.INVALID_API_KEY, WRONG_NETWORK),
    KeyRejectionReason.SUSPENDED: (ErrorCode.ACCOUNT_SUSPENDED, ""),
}


class BearerKeyAuthentication(BaseAuthentication):
    """Authenticates the bearer token (RFC 6750 section 2.1), and counts the request.

    The quota store does both in one statement; QuotaThrottle enforces its decision. A free operation only
    peeks. A malformed key never reaches the store. Raises ApiError 401, 403 for a suspended account, 429
    for a throttled lookup.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any]:
        http_request = request._request
        context, address = RequestContext.get(http_request), get_client_address(http_request)
        key = parse_authorization(http_request.META.get("HTTP_AUTHORIZATION", ""))
        may_write = http_request.method not in {"GET", "HEAD"}
        if may_write and replicas.get_aliases():
            context.write_began = monotonic()
        try:
            if context.operation.free:
                caller, decision = store.peek(key, address)
            else:
                caller, decision = store.admit(key, address, may_write=may_write)
        except KeyRejectedError as error:
            (reason,) = error.args
            count_rejected_key(reason.value)
            if reason is KeyRejectionReason.LOOKUP_THROTTLED:  # The throttle's 429 is more precise.
                raise ApiError(ErrorCode.RATE_LIMIT_EXCEEDED, headers={"Retry-After": "1"}) from None
            if reason is KeyRejectionReason.UNKNOWN:  # Perhaps invented, so it is not logged.
                raise ApiError(ErrorCode.INVALID_API_KEY) from None
            rejected = RejectedRequest.from_request(http_request, context, key.public_id, reason.value)
            write_behind.recorder.record_rejection(rejected)
            raise ApiError(*KEY_ERRORS[reason]) from None
        except Exception:
            # The key may be valid, so the request must not count for its client address.
            context.decision = anonymous.peek(http_request)
            raise
        context.caller, context.decision = caller, decision
        return caller, key

    @staticmethod
    def check_format(header: str) -> None:
        """Check an Authorization header without the store. Raises ApiError 401."""
        parse_authorization(header)


class HasScope(BasePermission):
    """Requires the scope of the operation, and records its lack for the rejection log."""

    def has_permission(self, request: Request, view: Any) -> bool:
        context = RequestContext.get(request._request)
        scope, caller = context.operation.scope, context.caller
        if scope is None or (caller is not None and scope in caller.scopes):
            return True
        if caller is not None:
            rejected = RejectedRequest.from_request(
                request._request, context, caller.public_id, "insufficient_scope", scope=scope
            )
            write_behind.recorder.record_rejection(rejected)
        message = f"The API key lacks the scope {scope}. Use a key that has it."
        raise ApiError(ErrorCode.INSUFFICIENT_SCOPE, message)


def parse_authorization(header: str) -> ParsedKey:
    """Parse an Authorization header. Raises ApiError 401."""
    if not header.strip():
        raise ApiError(ErrorCode.MISSING_API_KEY)
    scheme, _, token = header.strip().partition(" ")
    key = key_format.parse(token.strip(" ")) if scheme.lower() == "bearer" else None
    if key is None or key.mode != get_key_mode():
        raise ApiError(ErrorCode.INVALID_API_KEY)
    return key
