"""What the stores need to know of a key: one query, or one cached record."""

from dataclasses import fields
from enum import Enum
from typing import Any

from django.db.models import F, Value
from django.db.models.functions import Coalesce

from accounts.keys.identity import KeyFacts
from accounts.models import ApiKey, signing_pepper
from accounts.quota.limits import Limits, microseconds
from petstore.event_loop.compiled_reads import Read


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

TIMES = ("expires_at", "account_created_at", "created_at", "last_used_at")
CONVERTED = (*TIMES, "limits", "networks", "revoked", "suspended")
AS_STORED = tuple(field.name for field in fields(KeyFacts) if field.name not in CONVERTED)
FIELDS = (*AS_STORED, *TIMES, "allowed_networks", "revoked_at", "suspended_at", "per_minute", "per_day")

OF_STANDING = ("banned_until", "ban_level", "lifts")  # With 0 where there is no row.
OF_QUOTA = ("day", "day_used", "day_here", "minute_ends", "minute_used", "seen_at")
QUERY = (
    ApiKey.objects.annotate(
        per_minute=Coalesce(F("account__per_minute"), F("account__plan__per_minute")),
        per_day=Coalesce(F("account__per_day"), F("account__plan__per_day")),
        version=Coalesce(F("publication__version"), Value(0)),
        suspended_at=F("account__suspended_at"),
        account_name=F("account__name"),
        plan=F("account__plan"),
        account_created_at=F("account__created_at"),
        **{name: Coalesce(F(f"standing__{name}"), Value(0)) for name in OF_STANDING},
        **{name: Coalesce(F(f"account__quota__{name}"), Value(0)) for name in OF_QUOTA},
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
