"""Usage reports for the back office and the portal, from one or two queries on aggregates or an index.

Days are UTC days and include today. Write-behind delays the numbers by up to ten seconds.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
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

from accounts.actions import Action
from accounts.models import (
    EPOCH,
    Account,
    ApiKey,
    DailyUsage,
    MinuteCount,
    MinuteHistogram,
    OperationUsage,
    Plan,
    PlanCode,
    QuotaUsage,
)
from accounts.models.plans import PER_DAY, PER_MINUTE
from accounts.quota.limits import HOUR, MINUTE, Limits, to_datetime, to_microseconds
from petstore.audit.models import AuditEntry
from petstore.db.keysets import TwoFilterKey


def list_days(count: int, today: date | None) -> list[date]:
    """List the last `count` days, today last."""
    last_day = today or timezone.now().date()
    return [last_day - timedelta(days=days_ago) for days_ago in reversed(range(count))]


# --- Requests ------------------------------------------------------------------------------------


class DailyTotals(NamedTuple):
    day: date
    admitted: int
    rejected: int


def get_daily_usage_by_plan(days: int = 30, today: date | None = None) -> dict[PlanCode, list[DailyTotals]]:
    """Sum the usage per plan and day, the oldest day first.

    An account counts towards its current plan on all days.
    """
    period = list_days(days, today)
    totals = sum_usage(DailyUsage.objects.all(), period, "key__account__plan")
    return {
        plan: [DailyTotals(day, *totals.get((day, plan), (0, 0))) for day in period] for plan in PlanCode
    }


def get_daily_usage(days: int = 30, today: date | None = None, **filters: Any) -> list[DailyTotals]:
    """Sum the usage per day, the oldest day first. `filters` select DailyUsage rows."""
    period = list_days(days, today)
    totals = sum_usage(DailyUsage.objects.filter(**filters), period)
    return [DailyTotals(day, *totals.get((day,), (0, 0))) for day in period]


def sum_usage(
    queryset: QuerySet[DailyUsage], days: list[date], *fields: str
) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Sum admitted and rejected requests, grouped by day and `fields`."""
    groups = queryset.filter(day__range=(days[0], days[-1])).order_by().values_list("day", *fields)
    rows = groups.annotate(Sum("admitted"), Sum("rejected"))
    return {tuple(group): (admitted, rejected) for *group, admitted, rejected in rows}


def find_top_accounts(limit: int = 10, today: date | None = None) -> list[QuotaUsage]:
    """Find the accounts that have used the largest share of today's limit."""
    day = ((today or timezone.now().date()) - EPOCH).days
    share = Cast("day_used", FloatField()) / Cast(PER_DAY, FloatField())
    usages = QuotaUsage.objects.filter(day=day, day_used__gt=0).select_related("account__plan")
    return list(usages.order_by(share.desc(), "account__name")[:limit])


def find_deprecated_callers(days: int = 30, limit: int = 20, today: date | None = None) -> list[Account]:
    """Find the accounts with the most calls of `getPet`, annotated with `calls` and `last_call_at`."""
    period = list_days(days, today)
    callers = Account.objects.filter(
        deprecated_calls__operation="getPet", deprecated_calls__day__range=(period[0], period[-1])
    ).annotate(calls=Sum("deprecated_calls__admitted"), last_call_at=Max("deprecated_calls__last_call_at"))
    return list(callers.order_by("-calls", "name")[:limit])


def find_deprecated_calls(account: Account, today: date, days: int = 30) -> list[Any]:
    """Sum the calls of deprecated operations of an account: operation, calls, last_call_at."""
    calls = account.deprecated_calls.filter(day__gte=list_days(days, today)[0]).values("operation")
    return list(calls.annotate(calls=Sum("admitted"), last_call_at=Max("last_call_at")).order_by("-calls"))


def find_recent_keys(account: Account, now: datetime, days: int = 30) -> str:
    """Find the IDs of the keys that may have usage of the last days, however many have ended before.

    They are text for the lookup `any_of`. With a join, PostgreSQL would read the usage of all accounts.
    """
    return ApiKey.objects.find_active_since(account, now - timedelta(days=days + 1))


def select_operations(account: Account, now: datetime, days: int) -> QuerySet[OperationUsage]:
    """Select the usage of the last UTC days, or of the last 24 hours if `days` is 1."""
    hour = to_microseconds(now) // HOUR
    hours = OperationUsage.HOUR if days == 1 else OperationUsage.DAY
    first = hour - 23 if days == 1 else hour - hour % 24 - 24 * (days - 1)
    return account.operation_usage.filter(hours=hours, start__range=(first, hour)).order_by()


def get_hourly_usage(account: Account, now: datetime) -> list[tuple[datetime, int, int]]:
    """Sum admitted and rejected requests of each of the last 24 hours, the oldest first."""
    rejected = Sum("requests", filter=Q(status=429), default=0)
    rows = select_operations(account, now, 1).values_list("start")
    sums = rows.annotate(Sum("requests"), rejected=rejected)
    totals = {hour: (total - rejected, rejected) for hour, total, rejected in sums}
    last = to_microseconds(now) // HOUR
    return [(to_datetime(hour * HOUR), *totals.get(hour, (0, 0))) for hour in range(last - 23, last + 1)]


def get_usage_by_operation(account: Account, now: datetime, days: int) -> list[tuple[str, int, int]]:
    """Return operation, status and number of requests, the largest number first."""
    rows = select_operations(account, now, days).values_list("operation", "status")
    return list(rows.annotate(total=Sum("requests")).order_by("-total", "operation", "status"))


# --- Keys ----------------------------------------------------------------------------------------


def banned_keys_q(now: datetime) -> Q:
    """Match keys that are banned and not revoked."""
    return Q(revoked_at=None, rate_limit_state__banned_until__gt=to_microseconds(now))


def find_banned_keys(limit: int = 20, now: datetime | None = None) -> tuple[int, list[ApiKey]]:
    """Return the number of banned keys, and the keys whose bans end first."""
    banned = ApiKey.objects.filter(banned_keys_q(now or timezone.now())).annotate(total=Window(Count("pk")))
    banned = banned.select_related("account", "rate_limit_state").order_by("rate_limit_state__banned_until")
    keys = list(annotate_ban_reason(banned)[:limit])
    return getattr(keys[0], "total", 0) if keys else 0, keys


def annotate_ban_reason(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Annotate keys with `ban_reason`, the reason of their latest ban."""
    bans = AuditEntry.objects.filter(
        model=ApiKey._meta.label_lower,
        object_id=Cast(OuterRef("pk"), CharField()),
        action=Action.BANNED,
    )
    newest = bans.alias(key=TwoFilterKey("id")).order_by("-key")
    reason = Subquery(newest.values("reason")[:1])
    return keys.annotate(ban_reason=Coalesce(reason, Value("")))


class ExpiringKeys(NamedTuple):
    in_7_days: int  # Includes keys that have a replacement.
    in_30_days: int
    keys: list[ApiKey]  # Annotated with `replaced`: whether the key has a replacement.
    to_replace_in_7_days: int  # Excludes keys that have a replacement.


def find_expiring_keys(limit: int = 20, now: datetime | None = None) -> ExpiringKeys:
    """Find keys that expire within 30 days, those without a replacement first, then by expiry."""
    now = now or timezone.now()
    replacement = ApiKey.objects.filter(rotated_from=OuterRef("pk"))
    expiring = ApiKey.objects.filter(
        revoked_at=None, expires_at__gt=now, expires_at__lte=now + timedelta(days=30)
    ).annotate(replaced=Exists(replacement))
    in_7_days = Q(expires_at__lte=now + timedelta(days=7))
    counts = expiring.aggregate(
        in_7_days=Count("pk", filter=in_7_days),
        in_30_days=Count("pk"),
        to_replace_in_7_days=Count("pk", filter=in_7_days & Q(replaced=False)),
    )
    keys = expiring.select_related("account").order_by("replaced", "expires_at", "pk")[:limit]
    return ExpiringKeys(keys=list(keys), **counts)


# --- What-if simulation --------------------------------------------------------------------------


@dataclass
class Rejections:
    by_minute: int = 0
    by_day: int = 0
    account_ids: set[int] = field(default_factory=set)  # Accounts with at least one rejection.

    def add(self, account_id: int, histogram: Counter[int], limits: Limits) -> None:
        by_minute, by_day = count_rejections(histogram, limits)
        self.by_minute += by_minute
        self.by_day += by_day
        if by_minute or by_day:
            self.account_ids.add(account_id)

    @property
    def total(self) -> int:
        return self.by_minute + self.by_day


class Simulation(NamedTuple):
    days: int
    accounts: int  # Accounts that sent requests.
    requests: int  # Requests that were admitted, or rejected by the quota.
    current: Rejections  # Under the current limits, simulated in the same way.
    other: Rejections

    @property
    def difference(self) -> int:
        return self.other.total - self.current.total


def simulate_limits(
    subject: Plan | Account, limits: Limits, *, days: int = 30, today: date | None = None
) -> Simulation:
    """Simulate limits on the recorded traffic of an account, or of all accounts now on a plan.

    This is an estimate: it uses clock minutes, while real windows start with a request. Retries of rejected
    requests count as requests, which overestimates rejections. Requests during a ban are not recorded.
    """
    condition = Q(account__plan=subject) if isinstance(subject, Plan) else Q(account=subject)
    requests = 0
    accounts: set[int] = set()
    current, other = Rejections(), Rejections()
    for account_id, histogram, current_limits in iterate_day_loads(condition, list_days(days, today)):
        requests += count_requests(histogram)
        accounts.add(account_id)
        current.add(account_id, histogram, current_limits)
        other.add(account_id, histogram, limits)
    return Simulation(days, len(accounts), requests, current, other)


def iterate_day_loads(condition: Q, days: list[date]) -> Iterator[tuple[int, Counter[int], Limits]]:
    """Yield each account and day: account ID, {requests in a minute: minutes}, current limits."""
    # Minutes that are not rolled up yet.
    recent: dict[tuple[int, date], tuple[Counter[int], Limits]] = {}
    minute_counts = MinuteCount.objects.filter(condition)
    minutes = minute_counts.values_list("account_id", "minute", "requests", PER_MINUTE, PER_DAY)
    for account_id, minute, requests, *limits in minutes:
        day = to_datetime(minute * MINUTE).date()
        histogram, _ = recent.setdefault((account_id, day), (Counter(), Limits(*limits)))
        histogram[requests] += 1
    minute_histograms = MinuteHistogram.objects.filter(condition, day__range=(days[0], days[-1]))
    rolled_up = minute_histograms.values_list("account_id", "day", "minutes", PER_MINUTE, PER_DAY)
    for account_id, day, stored, *limits in rolled_up.iterator():
        histogram = Counter({int(requests): minutes for requests, minutes in stored.items()})
        recent_histogram, _ = recent.pop((account_id, day), (Counter(), None))
        yield account_id, histogram + recent_histogram, Limits(*limits)
    for (account_id, day), (histogram, current_limits) in recent.items():
        if days[0] <= day <= days[-1]:
            yield account_id, histogram, current_limits


def count_requests(histogram: Counter[int]) -> int:
    return sum(requests * minutes for requests, minutes in histogram.items())


def count_rejections(histogram: Counter[int], limits: Limits) -> tuple[int, int]:
    """Count the rejections by the minute limit, and those by the daily limit among the other requests."""
    by_minute = sum(
        (requests - limits.per_minute) * minutes
        for requests, minutes in histogram.items()
        if requests > limits.per_minute
    )
    remaining = count_requests(histogram) - by_minute
    return by_minute, max(0, remaining - limits.per_day)
