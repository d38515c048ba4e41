"""Usage reports for the back office, each from one or two queries on aggregates or an index.

Days are UTC days and include today. Write-behind delays the numbers by up to ten seconds.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import (
    CharField,
    Count,
    Exists,
    FloatField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    Window,
)
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from accounts.models import (
    EPOCH,
    Account,
    AccountDayLoad,
    ApiKey,
    DailyUsage,
    MinuteLoad,
    Plan,
    PlanCode,
    QuotaCounter,
)
from accounts.quota.limits import MINUTE, Limits, to_datetime, to_microseconds
from petstore.backoffice.models import AuditEntry


def list_days(days: int, today: date | None) -> list[date]:
    end = today or timezone.now().date()
    return [end - timedelta(days=back) for back in reversed(range(days))]


# --- Requests ------------------------------------------------------------------------------------


class DailyTotals(NamedTuple):
    day: date
    requests: int  # Admitted.
    refusals: int


def get_daily_usage_by_plan(days: int = 30, today: date | None = None) -> dict[PlanCode, list[DailyTotals]]:
    """Sum usage by plan, the oldest day first. An account counts for its present plan on all days."""
    wanted = list_days(days, today)
    found = sum_usage(DailyUsage.objects.all(), wanted, "key__account__plan")
    return {
        plan: [DailyTotals(day, *found.get((day, plan), (0, 0))) for day in wanted] for plan in PlanCode
    }


def get_daily_usage(days: int = 30, today: date | None = None, **whose: Any) -> list[DailyTotals]:
    """Sum the usage of a key or an account, as `whose` filters DailyUsage, the oldest day first."""
    wanted = list_days(days, today)
    found = sum_usage(DailyUsage.objects.filter(**whose), wanted)
    return [DailyTotals(day, *found.get((day,), (0, 0))) for day in wanted]


def sum_usage(
    usage: QuerySet[DailyUsage], days: list[date], *by: str
) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Sum requests and rejections by day and the fields `by`."""
    rows = (
        usage.filter(day__range=(days[0], days[-1]))
        .order_by()
        .values_list("day", *by)
        .annotate(Sum("requests"), Sum("refusals"))
    )
    return {tuple(group): (requests, rejections) for *group, requests, rejections in rows}


def find_top_accounts(limit: int = 10, today: date | None = None) -> list[QuotaCounter]:
    """Return today's counters, the largest share of the daily limit first."""
    day = ((today or timezone.now().date()) - EPOCH).days
    per_day = Coalesce("account__per_day", "account__plan__per_day")
    share = Cast("day_used", FloatField()) / Cast(per_day, FloatField())
    used = QuotaCounter.objects.filter(day=day, day_used__gt=0).select_related("account__plan")
    return list(used.order_by(share.desc(), "account__name")[:limit])


def find_deprecated_callers(days: int = 30, limit: int = 20, today: date | None = None) -> list[Account]:
    """Find the accounts with most calls of `getPet`, annotated with `calls` and `last_call_at`."""
    wanted = list_days(days, today)
    callers = Account.objects.filter(
        deprecated_uses__operation="getPet", deprecated_uses__day__range=(wanted[0], wanted[-1])
    ).annotate(calls=Sum("deprecated_uses__requests"), last_call_at=Max("deprecated_uses__last_call_at"))
    return list(callers.order_by("-calls", "name")[:limit])


# --- Keys ----------------------------------------------------------------------------------------


def is_banned(now: datetime) -> Q:
    return Q(revoked_at=None, standing__banned_until__gt=to_microseconds(now))


def find_banned_keys(limit: int = 20, now: datetime | None = None) -> tuple[int, list[ApiKey]]:
    """Count the banned keys, without revoked ones; return the number and the first to be free."""
    found = (
        ApiKey.objects.filter(is_banned(now or timezone.now()))
        .annotate(total=Window(Count("pk")))
        .select_related("account", "standing")
        .order_by("standing__banned_until")
    )
    keys = list(annotate_ban_reason(found)[:limit])
    return getattr(keys[0], "total", 0) if keys else 0, keys


def annotate_ban_reason(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Annotate keys with the `ban_reason` of their last ban."""
    bans = AuditEntry.objects.filter(
        model=ApiKey._meta.label_lower,
        object_id=Cast(OuterRef("pk"), CharField()),
        action=AuditEntry.Action.BANNED,
    )
    reason = Subquery(bans.order_by("-id").values("reason")[:1])
    return keys.annotate(ban_reason=Coalesce(reason, Value("")))


class ExpiringKeys(NamedTuple):
    in_7_days: int  # Including replaced keys.
    in_30_days: int
    keys: list[ApiKey]  # Annotated with `replaced`: rotated already.
    to_replace_in_7_days: int  # Without a replacement.


def find_expiring_keys(limit: int = 20, now: datetime | None = None) -> ExpiringKeys:
    """Find keys that expire within 30 days; those without a replacement first, then the soonest."""
    now = now or timezone.now()
    week = Q(expires_at__lte=now + timedelta(days=7))
    replacement = ApiKey.objects.filter(rotated_from=OuterRef("pk"))
    ending = ApiKey.objects.filter(
        revoked_at=None, expires_at__gt=now, expires_at__lte=now + timedelta(days=30)
    ).annotate(replaced=Exists(replacement))
    counts = ending.aggregate(
        seven=Count("pk", filter=week),
        thirty=Count("pk"),
        to_replace=Count("pk", filter=week & Q(replaced=False)),
    )
    found = ending.select_related("account").order_by("replaced", "expires_at", "pk")
    return ExpiringKeys(counts["seven"], counts["thirty"], list(found[:limit]), counts["to_replace"])


# --- What if -------------------------------------------------------------------------------------


class Simulation(NamedTuple):
    days: int
    accounts: int  # With any requests.
    requests: int  # Admitted, or rejected by the quota.
    rejected_by_minute: int
    rejected_by_day: int
    rejected_now: int  # By today's limits, simulated in the same way for comparison.
    accounts_rejected: int  # With at least one simulated rejection.

    @property
    def rejected(self) -> int:
        return self.rejected_by_minute + self.rejected_by_day


def simulate_limits(
    row: Plan | Account, limits: Limits, *, days: int = 30, today: date | None = None
) -> Simulation:
    """Simulate limits on the recorded traffic of a plan's present accounts, or of one account.

    An estimate. It uses clock minutes, while real windows start with a request. Retries of rejected
    requests count as requests, which overestimates rejections. Requests during a ban are not recorded.
    """
    period = list_days(days, today)
    whose = Q(account__plan=row) if isinstance(row, Plan) else Q(account=row)
    requests = by_minute = by_day = rejected_now = 0
    accounts: set[int] = set()
    affected: set[int] = set()
    for account, load, limits_now in iterate_day_loads(whose, period):
        wanted = sum(sent * times for sent, times in load.items())
        minute_rejections, day_rejections = count_rejections(load, wanted, limits)
        requests += wanted
        by_minute += minute_rejections
        by_day += day_rejections
        rejected_now += sum(count_rejections(load, wanted, limits_now))
        accounts.add(account)
        if minute_rejections or day_rejections:
            affected.add(account)
    return Simulation(days, len(accounts), requests, by_minute, by_day, rejected_now, len(affected))


def iterate_day_loads(whose: Q, days: list[date]) -> Iterator[tuple[int, Counter[int], Limits]]:
    """Yield for each account and day a histogram {requests in a minute: minutes}, and today's limits."""
    limits = (
        Coalesce("account__per_minute", "account__plan__per_minute"),
        Coalesce("account__per_day", "account__plan__per_day"),
    )
    # Not rolled up yet: a few thousand rows at most.
    staged: dict[tuple[int, date], tuple[Counter[int], Limits]] = {}
    minutes_of = MinuteLoad.objects.filter(whose).values_list("account_id", "minute", "requests", *limits)
    for account, minute, sent, *now in minutes_of:
        day = to_datetime(minute * MINUTE).date()
        staged.setdefault((account, day), (Counter(), Limits(*now)))[0][sent] += 1
    rows = AccountDayLoad.objects.filter(whose, day__range=(days[0], days[-1]))
    for account, day, minutes, *now in rows.values_list("account_id", "day", "minutes", *limits).iterator():
        more, _ = staged.pop((account, day), (Counter[int](), None))
        yield account, Counter({int(sent): times for sent, times in minutes.items()}) + more, Limits(*now)
    for (account, day), (load, limits_now) in staged.items():
        if days[0] <= day <= days[-1]:
            yield account, load, limits_now


def count_rejections(load: Counter[int], wanted: int, limits: Limits) -> tuple[int, int]:
    """Return the rejections of a day's requests by the minute limit, and of the rest by the daily limit."""
    by_minute = sum(
        (sent - limits.per_minute) * times for sent, times in load.items() if sent > limits.per_minute
    )
    return by_minute, max(0, wanted - by_minute - limits.per_day)
