"""The filters of the lists of keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts.admin.badges import SOON
from accounts.models import ApiKey, PlanCode
from accounts.quota.key_record import microseconds


class KeyFilter(admin.SimpleListFilter):
    """A filter with a fixed list of choices; any other value in the address filters nothing."""

    offered: tuple[tuple[str, str], ...]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return list(self.offered)

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        """Return the keys of the choice."""
        chosen = self.value()
        if chosen not in dict(self.offered):
            return queryset
        return queryset.filter(self.condition(chosen))

    def condition(self, chosen: str) -> Q:
        """Return what holds for the keys of a choice."""
        raise NotImplementedError


class StateFilter(KeyFilter):
    """Keys that work, or no longer do."""

    title = "state"
    parameter_name = "state"
    offered = (
        ("active", "Active"),
        ("soon", "Expires soon"),
        ("expired", "Expired"),
        ("revoked", "Revoked"),
    )

    def condition(self, chosen: str) -> Q:
        """Return the condition; `active` has those that expire soon, and those that are banned now."""
        now = timezone.now()
        if chosen == "revoked":
            return Q(revoked_at__isnull=False)
        return (
            Q(revoked_at=None)
            & {
                "active": Q(expires_at=None) | Q(expires_at__gt=now),
                "soon": Q(expires_at__gt=now, expires_at__lte=now + SOON),
                "expired": Q(expires_at__lte=now),
            }[chosen]
        )


class ExpiresFilter(KeyFilter):
    """Keys that end soon."""

    title = "end"
    parameter_name = "expires"
    offered = (("7", "Within 7 days"), ("30", "Within 30 days"))

    def condition(self, chosen: str) -> Q:
        """Return the condition."""
        now = timezone.now()
        return Q(revoked_at=None, expires_at__gt=now, expires_at__lte=now + timedelta(days=int(chosen)))


def banned_now(now: datetime) -> Q:
    """Return the condition for keys that are banned."""
    return Q(revoked_at=None, standing__banned_until__gt=microseconds(now))


class BannedFilter(KeyFilter):
    """Keys that are banned now."""

    title = "ban"
    parameter_name = "banned"
    offered = (("now", "Banned now"),)

    def condition(self, chosen: str) -> Q:
        """Return the condition."""
        return banned_now(timezone.now())


class PlanFilter(KeyFilter):
    """Keys of the accounts on a plan."""

    title = "plan of the account"
    parameter_name = "plan"
    offered = tuple(PlanCode.choices)

    def condition(self, chosen: str) -> Q:
        """Return the condition."""
        return Q(account__plan=chosen)
