"""What the page of an account shows beside its form."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts import reports
from accounts.admin.badges import PLAN_COLOURS, age, state_badge, usage_bar
from accounts.admin.filters import banned_now
from accounts.admin.timeline import BANS, SHOWN, of_account, of_keys
from accounts.models import Account, ApiKey, DailyUsage
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.history import Entry
from petstore.backoffice.navigation import may_view

KEYS_SHOWN = 20
LATEST = 10  # Refusals, bans.


class Panel(NamedTuple):
    """What another app knows of an account: a panel, and its part in the timeline."""

    template: str
    rows: list[Any]
    entries: list[Entry]


# Each returns its panel, or None for who may not see it. Other apps append theirs.
more_panels: list[Callable[[Account, HttpRequest], Panel | None]] = []


def panels(account: Account, request: HttpRequest) -> dict[str, Any]:
    """Return all that the templates show, of what the member of staff may see. Each list is short."""
    now = timezone.now()
    sees_keys = may_view(request, "accounts.apikey")
    more = [panel for make in more_panels if (panel := make(account, request)) is not None]
    entries = of_keys(account) if sees_keys else []
    timeline = [*entries, *of_account(account), *(entry for panel in more for entry in panel.entries)]
    keys = list(keys_of(account, now)[: KEYS_SHOWN + 1]) if sees_keys else []
    banned = keys_of(account, now).filter(banned_now(now))[:KEYS_SHOWN] if sees_keys else []
    return {
        "plan_badge": {"type": PLAN_COLOURS[account.plan_id], "text": str(account.plan)},
        "today": usage_bar(account.used_on(now.date()), account.limits.per_day),
        "usage": usage_chart(account, now),
        "sees_keys": sees_keys,
        "sees_refusals": may_view(request, "accounts.refusal"),
        "may_issue": request.user.has_perm("accounts.add_apikey"),
        "issue": f"{reverse('admin:accounts_apikey_add')}?account={account.pk}",
        "per_minute": f"{account.limits.per_minute:,}",
        "per_day": f"{account.limits.per_day:,}",
        "keys": [shown(key, account, now) for key in keys[:KEYS_SHOWN]],
        "more_keys": len(keys) > KEYS_SHOWN,
        "banned": [shown(key, account, now) for key in banned],
        "bans": [entry for entry in entries if entry.icon in BANS.values()][:LATEST],
        "refusals": account.refusals.select_related("key")[:LATEST],
        "more": more,
        "timeline": sorted(timeline, key=lambda entry: entry.at, reverse=True)[:SHOWN],
        "timeline_length": SHOWN,
    }


def keys_of(account: Account, now: datetime) -> QuerySet[ApiKey]:
    """Return its keys, the newest first, with what each sent today."""
    today = DailyUsage.objects.filter(key=OuterRef("pk"), day=now.date()).values("requests")
    return account.keys.select_related("standing").annotate(requests_today=Subquery(today))


def shown(key: ApiKey, account: Account, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "badge": state_badge(key, now),
        "last_use": age(key.last_used_at, now),
        "today": usage_bar(getattr(key, "requests_today", None) or 0, account.limits.per_day),
    }


def usage_chart(account: Account, now: datetime) -> BarChart | None:
    days = reports.account_usage(account.pk, days=30, today=now.date())
    if not any(day.requests or day.refusals for day in days):
        return None
    return BarChart(
        title="Use in the last 30 days",
        unit="requests",
        heading="Day",
        labels=[f"{day.day:%Y-%m-%d}" for day in days],
        series=[
            Series("Admitted", "--chart-1", [day.requests for day in days]),
            Series("Refused", "--chart-4", [day.refusals for day in days]),
        ],
        newest_last=True,
    )
