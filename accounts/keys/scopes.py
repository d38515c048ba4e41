"""The scopes of API keys (D18)."""

from collections.abc import Collection
from itertools import combinations

from django.core.exceptions import ValidationError

PETS_READ = "pets:read"
PETS_WRITE = "pets:write"
ORDERS_READ = "orders:read"
ORDERS_WRITE = "orders:write"
EVENTS_READ = "events:read"

DESCRIPTIONS = {
    PETS_READ: "list pets and categories, and fetch a pet",
    PETS_WRITE: "add pets",
    ORDERS_READ: "list and fetch the account's orders",
    ORDERS_WRITE: "place and cancel orders of the account",
    EVENTS_READ: "follow the feed of events",
}
SCOPES = tuple(DESCRIPTIONS)
ALL_SCOPES = " ".join(SCOPES)
READ_SCOPES = tuple(scope for scope in SCOPES if scope.endswith(":read"))
QUICKSTART_SCOPES = (*READ_SCOPES, ORDERS_WRITE)

# Every valid value of the column, for its CHECK constraint. The scopes are in this order and separated by
# spaces, as in OAuth (RFC 6749 section 3.3).
COMBINATIONS = tuple(
    " ".join(subset) for size in range(1, len(SCOPES) + 1) for subset in combinations(SCOPES, size)
)


def join_scopes(scopes: Collection[str]) -> str:
    """Join scopes as stored in the database. Raises ValidationError for an unknown or missing scope."""
    if not scopes:
        raise ValidationError("Choose at least one scope.")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise ValidationError(f"{unknown[0]!r} is not a scope. The scopes are {', '.join(SCOPES)}.")
    return " ".join(scope for scope in SCOPES if scope in scopes)


def narrow(current: str, new: Collection[str]) -> str:
    """Join the new scopes. Raises ValidationError like `join_scopes`, and for one that the key lacks."""
    if added := set(new) & set(SCOPES) - set(current.split()):
        raise ValidationError(
            f"The key lacks {join_scopes(added)}. It can lose scopes, but never gain any."
        )
    return join_scopes(new)
