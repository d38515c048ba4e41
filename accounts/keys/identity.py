"""Key records and the authenticated caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rest_framework.request import Request

from accounts.quota.limits import Limits
from petstore.api.context import RequestContext
from petstore.db import replicas


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key with its rate-limit state, and the limits and counters of its account."""

    id: int
    account_id: int
    public_id: str
    digest: str
    pepper_number: int
    limits: Limits
    version: int  # Raised by every change except usage and strikes: see Publication.
    scopes: str = ""
    networks: tuple[str, ...] = ()
    expires_at: int = 0  # Microseconds since the epoch; 0 for never.
    revoked: bool = False
    suspended: bool = False  # Whether the account is suspended.
    banned_until: int = 0
    ban_level: int = 0
    unban_count: int = 0  # Bans lifted by staff. Each clears the strikes and bans that Redis has cached.
    # The account's counters: see QuotaCounter.
    day: int = 0
    day_used: int = 0
    day_used_in_database: int = 0
    minute_ends_at: int = 0
    minute_used: int = 0
    last_request_at: int = 0
    # Only for GET /v1/account.
    account_name: str = ""
    plan: str = ""
    account_created_at: int = 0
    name: str = ""
    created_at: int = 0
    last_used_at: int = 0

    @property
    def caller(self) -> Caller:
        return Caller(self.account_id, self.id, self.public_id, frozenset(self.scopes.split()))


class Caller(NamedTuple):
    account_id: int
    key_id: int
    public_id: str
    scopes: frozenset[str]
    time_since_write: int = 0  # Microseconds since the account may last have written; 0 if unknown.
    is_authenticated: bool = True
    record: KeyRecord | None = None  # Set by a peek only (D39).

    @property
    def database(self) -> str:
        """The alias of the database to read from: the primary, or a replica with the account's writes."""
        return replicas.choose_alias(self.account_id, self.time_since_write)


def get_caller(request: Request) -> Caller:
    caller = RequestContext.get(request._request).caller
    assert isinstance(caller, Caller)
    return caller
