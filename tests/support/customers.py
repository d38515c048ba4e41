"""What customers have sent and what was refused them, for tests of the back office."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from accounts.models import Account, ApiKey, KeyStanding, QuotaCounter, Refusal
from accounts.models.plans import EPOCH
from accounts.quota.limits import microseconds


def use(account: Account, used: int, days_ago: int = 0) -> None:
    """Have an account use so many requests of a day's quota."""
    day = (timezone.now().date() - EPOCH).days - days_ago
    QuotaCounter.objects.create(
        account=account, minute_ends=0, minute_used=0, day=day, day_used=used, seen_at=0, admitted=True
    )


def refuse(key: ApiKey, **values: Any) -> Refusal:
    """Refuse a request of a key, for the minute's limit unless told otherwise."""
    now = timezone.now()
    known: dict[str, Any] = {
        "request_id": "req-1", "at": now, "account": key.account, "key": key, "rule": "rate_limit_exceeded",
        "method": "GET", "route": "/v1/pets", "minute_limit": 60, "minute_used": 60, "minute_ends_at": now,
        "day_limit": 1000, "day_used": 70, "day_ends_at": now,
    }  # fmt: skip
    return Refusal.objects.create(**known | values)


def ban(key: ApiKey, length: timedelta = timedelta(hours=1)) -> None:
    """Ban a key from now on."""
    now = timezone.now()
    until = microseconds(now + length)
    KeyStanding.objects.create(key=key, banned_at=microseconds(now), banned_until=until, ban_level=1)
