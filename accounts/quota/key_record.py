"""What the stores need to know of a key: one query, or one cached record."""

from enum import Enum
from typing import Any

from django.db.models import F, Value
from django.db.models.functions import Coalesce

from accounts.caller import KeyFacts
from accounts.limits import Limits, microseconds
from accounts.models import ApiKey, signing_pepper
from petstore.loop.compiled_reads import Read


class KeyRefusal(Enum):
    """Why a key is not valid."""

    UNKNOWN = "unknown"  # Or its secret is wrong: nobody is told which.
    REVOKED = "revoked"
    EXPIRED = "expired"
    UNCHECKED = "unchecked"  # From an address that sent too many unknown ones: see anonymous.py.
    ELSEWHERE = "elsewhere"  # Sent from a network that the key does not allow.
    SUSPENDED = "suspended"  # It is valid, but its account is suspended (D45).


# What an unknown id is compared with, so that it is as much work as a wrong secret.
NO_DIGEST = "0" * 64

AS_STORED = (
    "id", "account_id", "public_id", "digest", "pepper_number", "scopes", "banned_until", "ban_level",
    "lifts", "day", "day_used", "day_here", "version", "account_name", "plan", "name", "minute_ends",
    "minute_used", "seen_at",
)  # fmt: skip
TIMES = ("expires_at", "account_created_at", "created_at", "last_used_at")
FIELDS = (*AS_STORED, *TIMES, "allowed_networks", "revoked_at", "suspended_at", "per_minute", "per_day")

QUERY = (
    ApiKey.objects.annotate(
        per_minute=Coalesce(F("account__per_minute"), F("account__plan__per_minute")),
        per_day=Coalesce(F("account__per_day"), F("account__plan__per_day")),
        banned_until=Coalesce(F("standing__banned_until"), Value(0)),
        ban_level=Coalesce(F("standing__ban_level"), Value(0)),
        lifts=Coalesce(F("standing__lifts"), Value(0)),
        day=Coalesce(F("account__quota__day"), Value(0)),
        day_used=Coalesce(F("account__quota__day_used"), Value(0)),
        day_here=Coalesce(F("account__quota__day_here"), Value(0)),
        version=Coalesce(F("publication__version"), Value(0)),
        suspended_at=F("account__suspended_at"),
        account_name=F("account__name"),
        plan=F("account__plan"),
        account_created_at=F("account__created_at"),
        minute_ends=Coalesce(F("account__quota__minute_ends"), Value(0)),
        minute_used=Coalesce(F("account__quota__minute_used"), Value(0)),
        seen_at=Coalesce(F("account__quota__seen_at"), Value(0)),
    )
    .order_by()
    .values(*FIELDS)
)
ONE = Read(ApiKey, lambda: QUERY)  # A key in use is read once a minute, on the event loop without a thread.


def read(public_id: str) -> KeyFacts | None:
    """Return the facts of one key, or None if there is no such key."""
    row = ONE.where(public_id=public_id).one()
    return from_row(row) if row else None


def absent(public_id: str) -> KeyFacts:
    """Return facts that no key fits, for an id that the database does not have.

    Of a version before any other, so that they never replace what is known of a key.
    """
    return KeyFacts(
        id=0,
        account_id=0,
        public_id=public_id,
        digest=NO_DIGEST,
        pepper_number=signing_pepper(),
        limits=Limits(0, 0),
        version=-1,
        revoked=True,
    )


def from_row(row: Any) -> KeyFacts:
    """Return the facts in a row of QUERY."""
    times: dict[str, Any] = {name: microseconds(row[name]) if row[name] else 0 for name in TIMES}
    return KeyFacts(
        **{name: row[name] for name in AS_STORED},
        **times,
        networks=tuple(row["allowed_networks"]),
        revoked=row["revoked_at"] is not None,
        suspended=row["suspended_at"] is not None,
        limits=Limits(row["per_minute"], row["per_day"]),
    )
