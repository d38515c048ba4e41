"""The authenticated caller, and why a key may be rejected."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from rest_framework.request import Request

from petstore.api.context import RequestContext
from petstore.db import replicas


class KeyRejectionReason(Enum):
    UNKNOWN = "unknown"  # No such key, wrong secret or missing pepper: clients cannot tell which.
    REVOKED = "revoked"
    EXPIRED = "expired"
    LOOKUP_THROTTLED = "unchecked"  # The network is over its anonymous limit: see anonymous.py.
    NETWORK_NOT_ALLOWED = "elsewhere"
    SUSPENDED = "suspended"  # The account is suspended (D45).


class Caller(NamedTuple):
    account_id: int
    key_id: int
    public_id: str
    scopes: frozenset[str]
    time_since_write: int = 0  # Microseconds since the account may last have written.
    is_authenticated: bool = True

    @property
    def database(self) -> str:
        """The alias of the database to read from: the primary, or a replica with the account's writes."""
        return replicas.choose_alias(self.account_id, self.time_since_write)


def get_caller(request: Request) -> Caller:
    caller = RequestContext.get(request._request).caller
    assert isinstance(caller, Caller)
    return caller
