"""The authenticated caller, and why a key may be rejected."""

from __future__ import annotations

from enum import Enum

from rest_framework.request import Request

from petstore.api.context import Caller, RequestContext


class KeyRejectionReason(Enum):
    UNKNOWN = "unknown"  # No such key, wrong secret or missing pepper: clients cannot tell which.
    REVOKED = "revoked"
    EXPIRED = "expired"
    LOOKUP_THROTTLED = "lookup_throttled"  # The network is over its anonymous limit: see anonymous.py.
    NETWORK_NOT_ALLOWED = "network_not_allowed"
    SUSPENDED = "suspended"  # The account is suspended (D45).


class KeyRejectedError(Exception):
    """Argument: the KeyRejectionReason."""


def get_caller(request: Request) -> Caller:
    caller = RequestContext.get(request._request).caller
    assert caller is not None
    return caller
