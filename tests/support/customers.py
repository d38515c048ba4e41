"""Requests and rejections of customers, for tests of the back office."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from accounts.models import Account, ApiKey, QuotaUsage, RateLimitState, Rejection, UsageGeneration
from accounts.models.plans import EPOCH
from accounts.quota.limits import to_microseconds


def use_quota(account: Account, used: int, days_ago: int = 0) -> None:
    """Use up this many requests of an account's day quota."""
    day = (timezone.now().date() - EPOCH).days - days_ago
    UsageGeneration.objects.create(account=account)
    QuotaUsage.objects.create(account=account, day=day, day_used=used)


def add_rejection(key: ApiKey, **values: Any) -> Rejection:
    """Record a rejection of a key's request, by default for the minute limit."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "request_id": "req-1", "rejected_at": now, "account": key.account, "key": key,
        "reason": "rate_limit_exceeded", "method": "GET", "route": "/v1/pets",
        "minute_limit": 60, "minute_used": 60, "minute_ends_at": now,
        "day_limit": 1000, "day_used": 70, "day_ends_at": now,
    }  # fmt: skip
    return Rejection.objects.create(**defaults | values)


def expire(key: ApiKey) -> None:
    """Set the expiry of the key to a day ago."""
    now = timezone.now()
    key.created_at, key.expires_at = now - timedelta(days=2), now - timedelta(days=1)
    key.save(update_fields=["created_at", "expires_at"])


def ban(key: ApiKey, length: timedelta = timedelta(hours=1)) -> None:
    now = timezone.now()
    until = to_microseconds(now + length)
    state = {"banned_at": to_microseconds(now), "banned_until": until, "ban_level": 1}
    RateLimitState.objects.update_or_create(key=key, defaults=state)
