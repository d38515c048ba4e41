"""Dashboard cards about keys and accounts."""

from collections.abc import Iterator

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts.admin.badges import bar
from accounts.events.warnings import THRESHOLDS
from accounts.models import Account, PlanCode, QuotaCounter
from accounts.usage import reports
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.dashboard import Card, Step, list_url, register_cards
from petstore.backoffice.navigation import may_view
from petstore.backoffice.text import pluralize

DAYS = 30  # Default range of the charts.
RANGES = (7, 30, 90)
TOP_ACCOUNTS = 10
LONGEST_LIST = 5
NEARLY_ALL = THRESHOLDS[0]  # Percent of the daily quota at which customers get a warning.


@register_cards
def cards(request: HttpRequest) -> Iterator[Card]:
    if may_view(request, "accounts.apikey"):
        yield keys(request)
    if may_view(request, "accounts.account"):
        top = reports.find_top_accounts(TOP_ACCOUNTS)
        yield traffic(request, used_today=bool(top))
        yield quota(request, top)
        yield callers_of_get_pet()


def keys(request: HttpRequest) -> Card:
    banned, banned_first = reports.find_banned_keys(LONGEST_LIST)
    expiring = reports.find_expiring_keys(limit=LONGEST_LIST)
    to_replace = expiring.to_replace_in_7_days
    links = {
        "banned": list_url("accounts_apikey", banned="now"),
        "in_7_days": list_url("accounts_apikey", expires="7"),
        "in_30_days": list_url("accounts_apikey", expires="30"),
    }
    changes = request.user.has_perm("accounts.change_apikey")
    steps = []
    if changes and banned:
        text = pluralize(banned, "key is banned.", "keys are banned.")
        steps.append(Step(2, "gavel", text, "See why", links["banned"]))
    if changes and to_replace > 0:
        one, many = "key expires within 7 days and has", "keys expire within 7 days and have"
        text = f"{pluralize(to_replace, one, many)} no replacement."
        steps.append(Step(2, "key", text, "Rotate in time", links["in_7_days"]))
    now = timezone.now()
    bans = [(key, key.get_ban_end(now)) for key in banned_first]
    context = {"bans": bans, "banned": banned, "expiring": expiring, "links": links, "may_lift": changes}
    return Card("keys", "right", 2, context, steps)


def traffic(request: HttpRequest, *, used_today: bool) -> Card:
    days = next((days for days in RANGES if request.GET.get("days") == str(days)), DAYS)
    by_plan = reports.get_daily_usage_by_plan(days)
    charts = [traffic_chart(by_plan, column) for column in ("requests", "refusals")]
    requests, refusals = (chart if chart.total else None for chart in charts)
    quiet = not (requests or refusals)
    no_accounts = quiet and not used_today and not Account.objects.exists()
    context = {
        "days": days, "ranges": RANGES, "requests": requests, "refusals": refusals,
        "quiet": quiet, "none": no_accounts,
        "link": list_url("accounts_account"),
        "why_refused": list_url("accounts_refusal") if may_view(request, "accounts.refusal") else "",
    }  # fmt: skip
    add = reverse("admin:accounts_account_add")
    step = Step(3, "storefront", "There are no accounts yet.", "Add the first account", add)
    offers_to_add = no_accounts and request.user.has_perm("accounts.add_account")
    return Card("traffic", "top", 1, context, [step] if offers_to_add else [])


def traffic_chart(by_plan: dict[PlanCode, list[reports.DailyTotals]], column: str) -> BarChart:
    series = [
        Series(
            plan.label,
            f"--chart-{number}",
            [getattr(day, column) for day in days],
            list_url("accounts_account", plan__code__exact=plan.value),
        )
        for number, (plan, days) in enumerate(by_plan.items(), start=1)
    ]
    labels = [f"{day.day:%Y-%m-%d}" for day in by_plan[PlanCode.FREE]]
    title = f"{column.capitalize()} per day, last {len(labels)} days"
    return BarChart(title, column, "Day (UTC)", labels, series, newest_last=True)


def quota(request: HttpRequest, top: list[QuotaCounter]) -> Card:
    lines = [{"account": used.account, **bar(used.day_used, used.account.limits.per_day)} for used in top]
    steps = []
    nearly = sum(line["level"] != "low" for line in lines)
    if nearly and request.user.has_perm("accounts.change_account"):
        at_least = "or more " if nearly == TOP_ACCOUNTS else ""
        text = pluralize(nearly, "account has", f"accounts {at_least}have")
        text = f"{text} used at least {NEARLY_ALL}% of today's quota."
        which = list_url("accounts_account", used=str(NEARLY_ALL))
        steps.append(Step(3, "speed", text, "See which", which))
    return Card("quota", "left", 2, {"top": lines, "link": list_url("accounts_account")}, steps)


def callers_of_get_pet() -> Card:
    context = {
        "days": DAYS,
        "callers": reports.find_deprecated_callers(DAYS, TOP_ACCOUNTS),
        "removed_at": settings.GET_PET_REMOVED_AT,
        "removed": timezone.now() >= settings.GET_PET_REMOVED_AT,
    }
    return Card("deprecated", "left", 3, context)
