"""The filters of the lists of keys."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from accounts.admin.badges import SOON
from accounts.models import PlanCode
from accounts.quota.key_record import microseconds
from petstore.backoffice.filters import ChoiceFilter


class StateFilter(ChoiceFilter):
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


class ExpiresFilter(ChoiceFilter):
    title = "end"
    parameter_name = "expires"
    offered = (("7", "Within 7 days"), ("30", "Within 30 days"))

    def condition(self, chosen: str) -> Q:
        now = timezone.now()
        return Q(revoked_at=None, expires_at__gt=now, expires_at__lte=now + timedelta(days=int(chosen)))


def banned_now(now: datetime) -> Q:
    return Q(revoked_at=None, standing__banned_until__gt=microseconds(now))


class BannedFilter(ChoiceFilter):
    title = "ban"
    parameter_name = "banned"
    offered = (("now", "Banned now"),)

    def condition(self, chosen: str) -> Q:
        return banned_now(timezone.now())


class PlanFilter(ChoiceFilter):
    title = "plan of the account"
    parameter_name = "plan"
    offered = tuple(PlanCode.choices)

    def condition(self, chosen: str) -> Q:
        return Q(account__plan=chosen)
