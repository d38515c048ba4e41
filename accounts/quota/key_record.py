"""The query that loads a KeyRecord."""

from dataclasses import fields
from enum import Enum
from typing import Any

from django.db.models import F, Value
from django.db.models.functions import Coalesce

from accounts.keys.identity import KeyRecord
from accounts.models import ApiKey, get_signing_pepper_number
from accounts.models.plans import PER_DAY, PER_MINUTE
from accounts.quota.limits import Limits, to_microseconds
from petstore.event_loop.compiled_reads import Read


class KeyRejectionReason(Enum):
    UNKNOWN = "unknown"  # No such key, wrong secret or missing pepper: clients cannot tell which.
    REVOKED = "revoked"
    EXPIRED = "expired"
    LOOKUP_THROTTLED = "unchecked"  # The network is over its anonymous limit: see anonymous.py.
    NETWORK_NOT_ALLOWED = "elsewhere"
    SUSPENDED = "suspended"  # The account is suspended (D45).


TIME_FIELDS = ("expires_at", "account_created_at", "created_at", "last_used_at")
CONVERTED_FIELDS = (*TIME_FIELDS, "limits", "networks", "revoked", "suspended")
COPIED_FIELDS = tuple(field.name for field in fields(KeyRecord) if field.name not in CONVERTED_FIELDS)
SOURCE_FIELDS = ("allowed_networks", "revoked_at", "suspended_at", "per_minute", "per_day")

# These default to 0 if the related row does not exist.
STATE_FIELDS = ("banned_until", "ban_level", "unban_count")
WINDOW_FIELDS = ("day", "day_used", "day_used_in_database", "minute_ends_at", "minute_used")
COUNTER_FIELDS = (*WINDOW_FIELDS, "last_request_at")
QUERY = (
    ApiKey.objects.annotate(
        per_minute=PER_MINUTE,
        per_day=PER_DAY,
        version=Coalesce(F("publication__version"), Value(0)),
        suspended_at=F("account__suspended_at"),
        account_name=F("account__name"),
        plan=F("account__plan"),
        account_created_at=F("account__created_at"),
        **{name: Coalesce(F(f"rate_limit_state__{name}"), Value(0)) for name in STATE_FIELDS},
        **{name: Coalesce(F(f"account__quota__{name}"), Value(0)) for name in COUNTER_FIELDS},
    )
    .order_by()
    .values(*COPIED_FIELDS, *TIME_FIELDS, *SOURCE_FIELDS)
)
COMPILED_QUERY = Read(ApiKey, lambda: QUERY)  # Runs on the event loop without a thread.


def read(public_id: str) -> KeyRecord:
    """Read the record of a key, or build a dummy for an unknown one."""
    row = COMPILED_QUERY.where(public_id=public_id).fetch_one()
    return from_row(row) if row else build_dummy_record(public_id)


def build_dummy_record(public_id: str) -> KeyRecord:
    """Build a record that no secret matches. It has the lowest version, so it never overwrites a real one.

    Secrets are compared with its digest as well, so that timing does not reveal whether a key exists.
    """
    digest, pepper_number = "0" * 64, get_signing_pepper_number()
    return KeyRecord(0, 0, public_id, digest, pepper_number, Limits(0, 0), version=-1, revoked=True)


def from_row(row: Any) -> KeyRecord:
    """Convert a row of QUERY."""
    times: dict[str, Any] = {name: to_microseconds(row[name]) if row[name] else 0 for name in TIME_FIELDS}
    return KeyRecord(
        **{name: row[name] for name in COPIED_FIELDS},
        **times,
        networks=tuple(row["allowed_networks"]),
        revoked=row["revoked_at"] is not None,
        suspended=row["suspended_at"] is not None,
        limits=Limits(row["per_minute"], row["per_day"]),
    )
