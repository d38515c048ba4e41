"""Who sends a request: what authentication proves and the rest of the request needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rest_framework.request import Request

from accounts.quota.limits import Limits
from petstore.api.context import RequestContext
from petstore.db import replicas


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key, its account's limits and its standing, as the database has them."""

    id: int
    account_id: int
    public_id: str
    digest: str
    pepper_number: int
    limits: Limits
    # Goes up with every change of the rest, but for the counts and the last use: see Publication.
    version: int
    scopes: str = ""
    networks: tuple[str, ...] = ()
    expires_at: int = 0  # Microseconds since the epoch; 0 for never.
    revoked: bool = False
    suspended: bool = False  # The account is.
    banned_until: int = 0
    ban_level: int = 0
    lifts: int = 0  # How often staff lifted a ban: what a store keeps of strikes and bans is void before.
    day: int = 0  # What the database knows of a UTC day, for a store with its own count: see publish.lua.
    day_used: int = 0
    day_here: int = 0
    minute_ends: int = 0  # With the two below what the database itself counts: see QuotaCounter.
    minute_used: int = 0
    seen_at: int = 0
    account_name: str = ""
    plan: str = ""
    account_created_at: int = 0
    name: str = ""
    created_at: int = 0
    last_used_at: int = 0

    @property
    def caller(self) -> Caller:
        """What the rest of the request needs."""
        return Caller(self.account_id, self.id, self.public_id, frozenset(self.scopes.split()))


class Caller(NamedTuple):
    """A valid key's holder."""

    account_id: int
    key_id: int
    public_id: str
    scopes: frozenset[str]
    since_write: int = 0  # Microseconds since the account last may have written; 0 where that is not known.
    is_authenticated: bool = True
    facts: KeyFacts | None = None  # Of the key and its account: for operations that cost nothing (D39).

    @property
    def database(self) -> str:
        """The database that this request may read: one that shows what the account has written."""
        return replicas.alias_for_read(self.account_id, self.since_write)


def caller_of(request: Request) -> Caller:
    """Return who sent a request that has passed the gate."""
    caller = RequestContext.of(request._request).caller
    assert isinstance(caller, Caller)
    return caller
