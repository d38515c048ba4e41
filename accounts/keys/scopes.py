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
SCOPES = (PETS_READ, PETS_WRITE, ORDERS_READ, ORDERS_WRITE, EVENTS_READ)
ALL_SCOPES = " ".join(SCOPES)
READ_SCOPES = tuple(scope for scope in SCOPES if scope.endswith(":read"))

# Every valid value of the column, for its CHECK constraint: in order and separated by spaces, as in OAuth
# (RFC 6749 section 3.3).
COMBINATIONS = tuple(
    " ".join(chosen) for size in range(1, len(SCOPES) + 1) for chosen in combinations(SCOPES, size)
)


def join_scopes(scopes: Collection[str]) -> str:
    """Join scopes in the stored order. Raises ValidationError for none or an unknown one."""
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise ValidationError(
            f"{unknown[0]!r} is no scope." if unknown else "At least one scope is needed."
        )
    return " ".join(scope for scope in SCOPES if scope in scopes)
