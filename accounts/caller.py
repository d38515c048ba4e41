"""Who sends a request: what authentication proves and the rest of the request needs."""

from typing import NamedTuple

from rest_framework.request import Request

from petstore.api.passage import Passage
from petstore.db import replicas


class Profile(NamedTuple):
    """What a key's holder may know of it and its account (D39).

    Times are whole microseconds since the epoch; 0 for never.
    """

    account_name: str
    plan: str
    account_created_at: int
    key_name: str
    networks: tuple[str, ...]
    created_at: int
    expires_at: int
    last_used_at: int


class Caller(NamedTuple):
    """A valid key's holder."""

    account_id: int
    key_id: int
    public_id: str
    scopes: frozenset[str]
    since_write: int = 0  # Microseconds since the account last may have written; 0 where that is not known.
    is_authenticated: bool = True
    profile: Profile | None = None  # Known to operations that cost nothing.

    @property
    def database(self) -> str:
        """The database that this request may read: one that shows what the account has written."""
        return replicas.alias_for_read(self.account_id, self.since_write)


def caller_of(request: Request) -> Caller:
    """Return who sent a request that has passed the gate."""
    caller = Passage.of(request._request).caller
    assert isinstance(caller, Caller)
    return caller
