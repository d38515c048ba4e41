"""Who sends a request: what authentication proves and the rest of the request needs."""

from typing import NamedTuple

from rest_framework.request import Request


class Caller(NamedTuple):
    """A valid key's holder. DRF has it as `request.auth`."""

    account_id: int
    key_id: int
    public_id: str
    scopes: frozenset[str]
    is_authenticated: bool = True


def caller_of(request: Request) -> Caller:
    """Return who sent a request that was authenticated."""
    caller = request.auth
    assert isinstance(caller, Caller)
    return caller
