"""From the Authorization header to a caller, as a list of refusals (D16-D20)."""

from time import monotonic
from typing import Any

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts.keys import key_format
from accounts.keys.key_format import KeyText
from accounts.models import key_mode
from accounts.quota import anonymous
from accounts.quota.key_record import KeyRefusal
from accounts.quota.redis_store import ForeignReplyError
from accounts.quota.store import store
from accounts.usage import rejections
from petstore.api.client_ip import client_address
from petstore.api.context import RequestContext
from petstore.api.errors import RETRY_SECONDS, ApiError, ErrorCode
from petstore.db import replicas
from petstore.observability.metrics import KEYS_REFUSED

RETRY = {"Retry-After": str(RETRY_SECONDS)}
REFUSALS = {
    KeyRefusal.UNKNOWN: (ErrorCode.INVALID_API_KEY, ""),
    KeyRefusal.REVOKED: (ErrorCode.INVALID_API_KEY, ""),
    KeyRefusal.EXPIRED: (ErrorCode.EXPIRED_API_KEY, ""),  # Said only to somebody who has the secret.
    KeyRefusal.ELSEWHERE: (
        ErrorCode.INVALID_API_KEY,
        "This API key may not be used from your network address. Use it from one that it allows.",
    ),
    KeyRefusal.SUSPENDED: (ErrorCode.ACCOUNT_SUSPENDED, ""),
}

# Refused to somebody who has the secret: staff can look it up. Anybody can invent the others.
PROVED = {KeyRefusal.REVOKED, KeyRefusal.EXPIRED, KeyRefusal.ELSEWHERE, KeyRefusal.SUSPENDED}


def authenticate(request: HttpRequest, context: RequestContext) -> None:
    """Find who sends a request with an API key (RFC 6750 section 2.1), and count it; a step of the gate.

    The store that proves a key counts the request in the same step, for a step more would be a round trip
    more; where the operation costs nothing, it shows what is left instead. Its decision goes with the
    request: the throttle turns it into a 429. Raises ApiError 401, or 403 for a suspended account; what is
    malformed never reaches a store.
    """
    key = read_key(request.META.get("HTTP_AUTHORIZATION", ""))
    writes = request.method not in {"GET", "HEAD"}
    if writes and replicas.ALIASES:
        context.write_began = monotonic()
    try:
        if context.operation.free:
            admission = store.look(key, client_address(request))
        else:
            admission = store.admit(key, client_address(request), writes=writes)
    except Exception as error:
        # Nobody knows whether the key is valid, so nobody is charged: the headers show the address's
        # window as it is.
        context.decision = anonymous.peek(request)
        if isinstance(error, ForeignReplyError):
            raise ApiError(ErrorCode.SERVICE_UNAVAILABLE, headers=RETRY) from error
        raise
    if admission.refusal is None:
        context.caller, context.decision = admission.caller, admission.decision
        return
    KEYS_REFUSED.labels(admission.refusal.value).inc()
    if admission.refusal in PROVED:
        rejections.note(request, context, key.public_id, admission.refusal.value)
    if admission.refusal is KeyRefusal.UNCHECKED:  # The throttle has the address's own wait to tell.
        raise ApiError(ErrorCode.RATE_LIMIT_EXCEEDED, headers={"Retry-After": "1"})
    raise ApiError(*REFUSALS[admission.refusal])


class BearerKeyAuthentication(BaseAuthentication):
    """Tells DRF whom the gate has found."""

    def authenticate(self, request: Request) -> tuple[Any, Any]:
        """Return the caller, as DRF's `user` and `auth`."""
        caller = RequestContext.of(request._request).caller
        return caller, caller


def read_key(header: str) -> KeyText:
    """Return the key in an Authorization header. Raises ApiError 401."""
    # 1. Nothing was sent.
    if not header.strip():
        raise ApiError(ErrorCode.MISSING_API_KEY)
    # 2. Another scheme, another form, or a wrong checksum.
    scheme, _, token = header.strip().partition(" ")
    key = key_format.split(token.strip(" ")) if scheme.lower() == "bearer" else None
    # 3. A key of the other environment.
    if key is None or key.mode != key_mode():
        raise ApiError(ErrorCode.INVALID_API_KEY)
    return key
