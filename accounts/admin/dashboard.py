"""Dashboard cards about keys and accounts."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts.admin.badges import build_usage_bar, render_age
from accounts.events.warnings import THRESHOLDS
from accounts.models import Account, PlanCode, QuotaUsage
from accounts.usage import reports
from petstore.backoffice.dashboard import Card, Step, list_url, register_cards
from petstore.backoffice.navigation import may_view
from petstore.charts import BarChart, Series
from petstore.text import format_count

DEFAULT_DAYS = 30
PERIODS = (7, 30, 90)  # Days that the charts can show.
MAX_ACCOUNTS = 10
MAX_KEYS = 5
MAX_SUSPENSIONS = 5


@register_cards
def build_cards(request: HttpRequest) -> Iterator[Card]:
    if may_view(request, "accounts.apikey"):
        yield build_keys_card(request)
    if may_view(request, "accounts.account"):
        usages = reports.find_top_accounts(MAX_ACCOUNTS)
        yield build_traffic_card(request, has_usage_today=bool(usages))
        yield build_quota_card(request, usages)
        yield build_deprecated_calls_card()
        suspended = Account.objects.filter(suspended_at__isnull=False).order_by("-suspended_at")
        yield Card("suspensions", "right", 3, {"accounts": suspended[:MAX_SUSPENSIONS]})


def build_keys_card(request: HttpRequest) -> Card:
    now = timezone.now()
    ban_count, banned_keys = reports.find_banned_keys(MAX_KEYS)
    expiring = reports.find_expiring_keys(limit=MAX_KEYS)
    may_change = request.user.has_perm("accounts.change_apikey")
    steps = []
    if may_change and ban_count:
        text = format_count(ban_count, "key is banned.", "keys are banned.")
        steps.append(
            Step(2, "gavel", text, "View banned keys", list_url("accounts_apikey", state="banned"))
        )
    if may_change and expiring.to_replace_in_7_days:
        text = format_count(
            expiring.to_replace_in_7_days,
            "key expires within 7 days and has no replacement.",
            "keys expire within 7 days and have no replacement.",
        )
        steps.append(
            Step(2, "key", text, "View expiring keys", list_url("accounts_apikey", state="unreplaced"))
        )
    context = {
        "bans": [(key, key.get_ban_end(now)) for key in banned_keys],
        "ban_count": ban_count,
        "expiring": expiring,
    }
    return Card("keys", "right", 2, context, steps)


def build_traffic_card(request: HttpRequest, *, has_usage_today: bool) -> Card:
    days = next((days for days in PERIODS if request.GET.get("days") == str(days)), DEFAULT_DAYS)
    by_plan = reports.get_daily_usage_by_plan(days)
    requests_chart = build_traffic_chart(by_plan, "admitted", "requests")
    rejections_chart = build_traffic_chart(by_plan, "rejected", "rejections")
    has_traffic = bool(requests_chart.total or rejections_chart.total)
    has_accounts = has_traffic or has_usage_today or Account.objects.exists()
    context = {
        "days": days,
        "periods": PERIODS,
        "requests": requests_chart if requests_chart.total else None,
        "rejections": rejections_chart if rejections_chart.total else None,
        "has_traffic": has_traffic,
        "has_accounts": has_accounts,
        "may_view_rejections": may_view(request, "accounts.rejection"),
    }
    steps = []
    if not has_accounts and request.user.has_perm("accounts.add_account"):
        url = reverse("admin:accounts_account_add")
        steps.append(Step(3, "storefront", "There are no accounts yet.", "Add the first account", url))
    return Card("traffic", "top", 1, context, steps)


def build_traffic_chart(
    by_plan: dict[PlanCode, list[reports.DailyTotals]], column: str, unit: str
) -> BarChart:
    """Chart a column of DailyTotals, with a series for each plan."""
    series = []
    for number, (plan, days) in enumerate(by_plan.items(), start=1):
        link = list_url("accounts_account", plan__code__exact=plan.value)
        series.append(Series(plan.label, f"--chart-{number}", [getattr(day, column) for day in days], link))
    labels = [f"{day.day:%Y-%m-%d}" for day in by_plan[PlanCode.FREE]]
    title = f"{unit.capitalize()} per day, last {len(labels)} days"
    return BarChart(title, unit, "Day (UTC)", labels, series, newest_last=True)


def build_quota_card(request: HttpRequest, usages: list[QuotaUsage]) -> Card:
    rows = [
        {"account": usage.account, **build_usage_bar(usage.day_used, usage.account.limits.per_day)}
        for usage in usages
    ]
    steps = []
    count = sum(row["level"] != "low" for row in rows)
    if count and request.user.has_perm("accounts.change_account"):
        or_more = "or more " if count == MAX_ACCOUNTS else ""
        accounts = format_count(count, "account has", f"accounts {or_more}have")
        text = f"{accounts} used at least {THRESHOLDS[0]}% of today's quota."
        url = list_url("accounts_account", used=THRESHOLDS[0])
        steps.append(Step(3, "speed", text, "View accounts", url))
    return Card("quota", "left", 2, {"top": rows}, steps)


def build_deprecated_calls_card() -> Card:
    now = timezone.now()
    callers: list[Any] = reports.find_deprecated_callers(DEFAULT_DAYS, MAX_ACCOUNTS)
    context = {
        "days": DEFAULT_DAYS,
        "callers": [(caller, render_age(caller.last_call_at, now)) for caller in callers],
        "removed_at": settings.GET_PET_REMOVED_AT,
        "is_removed": now >= settings.GET_PET_REMOVED_AT,
    }
    return Card("deprecated", "left", 3, context)
