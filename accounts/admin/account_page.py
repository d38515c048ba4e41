"""What the page of an account shows beside its form."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts import reports
from accounts.admin.badges import PLAN_COLOURS, age, exact, state_badge, usage_bar
from accounts.admin.filters import banned_now
from accounts.admin.timeline import SHOWN, timeline
from accounts.models import Account, ApiKey, DailyUsage, KeyEvent
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.navigation import may_view

KEYS_SHOWN = 20
LATEST = 10  # Orders, refusals, bans.
BANS = (KeyEvent.Action.BANNED, KeyEvent.Action.UNBANNED)


def panels(account: Account, request: HttpRequest) -> dict[str, Any]:
    """Return all that the templates show, of what the member of staff may see. Each list is short."""
    now = timezone.now()
    sees_keys, sees_orders = may_view(request, "accounts.apikey"), may_view(request, "inventory.order")
    keys = list(keys_of(account, now)[: KEYS_SHOWN + 1]) if sees_keys else []
    banned = keys_of(account, now).filter(banned_now(now))[:KEYS_SHOWN] if sees_keys else []
    events = events_of(account) if sees_keys else []
    # A reverse relation: the inventory knows the accounts, and not the other way about.
    orders = (
        list(account.orders.newest_first().prefetch_related("events").select_related("pet")[:SHOWN])
        if sees_orders
        else []
    )
    return {
        "now": now,
        "plan_badge": {"type": PLAN_COLOURS[account.plan_id], "text": str(account.plan)},
        "today": usage_bar(account.used_on(now.date()), account.limits.per_day),
        "usage": usage_chart(account, now),
        "sees_keys": sees_keys,
        "sees_orders": sees_orders,
        "sees_refusals": may_view(request, "accounts.refusal"),
        "may_issue": request.user.has_perm("accounts.add_apikey"),
        "issue": f"{reverse('admin:accounts_apikey_add')}?account={account.pk}",
        "per_minute": f"{account.limits.per_minute:,}",
        "per_day": f"{account.limits.per_day:,}",
        "keys": [shown(key, account, now) for key in keys[:KEYS_SHOWN]],
        "more_keys": len(keys) > KEYS_SHOWN,
        "banned": [shown(key, account, now) for key in banned],
        "bans": [event for event in events if event.action in BANS][:LATEST],
        "orders": orders[:LATEST],
        "refusals": account.refusals.select_related("key")[:LATEST],
        "timeline": timeline(account, events, orders),
        "timeline_length": SHOWN,
    }


def keys_of(account: Account, now: datetime) -> QuerySet[ApiKey]:
    """Return its keys, the newest first, with what each sent today."""
    today = DailyUsage.objects.filter(key=OuterRef("pk"), day=now.date()).values("requests")
    return account.keys.select_related("standing").annotate(requests_today=Subquery(today))


def events_of(account: Account) -> list[KeyEvent]:
    """Return the latest that happened to its keys."""
    return list(KeyEvent.objects.filter(key__account=account).select_related("key")[:SHOWN])


def shown(key: ApiKey, account: Account, now: datetime) -> dict[str, Any]:
    """Return what the table says of a key."""
    ban_end = key.ban_end(now)
    return {
        "key": key,
        "badge": state_badge(key, now),
        "last_use": age(key.last_used_at, now),
        "today": usage_bar(getattr(key, "requests_today", None) or 0, account.limits.per_day),
        "ban_ends": exact(ban_end) if ban_end else "",
    }


def usage_chart(account: Account, now: datetime) -> BarChart | None:
    """Return the chart of the last 30 days, or None if nothing was sent."""
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
