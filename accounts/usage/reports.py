"""Numbers for the back office, each from one or two queries that read aggregates or a few rows by an index.

Days are UTC days, the present one included. The numbers lag up to ten seconds behind the requests.
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
from accounts.quota.limits import MINUTE, Limits, microseconds, moment
from petstore.backoffice.models import AuditEntry


def last_days(days: int, today: date | None) -> list[date]:
    """Return that many days up to today, the oldest first."""
    end = today or timezone.now().date()
    return [end - timedelta(days=back) for back in reversed(range(days))]


# --- Requests ------------------------------------------------------------------------------------


class Day(NamedTuple):
    day: date
    requests: int  # Admitted.
    refusals: int


def requests_by_plan(days: int = 30, today: date | None = None) -> dict[PlanCode, list[Day]]:
    """Return what the accounts of each plan sent, for every day, the oldest first.

    An account counts for the plan that it has now, on days before it had it as well.
    """
    wanted = last_days(days, today)
    found = sums(DailyUsage.objects.all(), wanted, "key__account__plan")
    return {plan: [Day(day, *found.get((day, plan), (0, 0))) for day in wanted] for plan in PlanCode}


def usage_of(days: int = 30, today: date | None = None, **whose: Any) -> list[Day]:
    """Return what a key sent, or an account with all its keys, for every day, the oldest first."""
    wanted = last_days(days, today)
    found = sums(DailyUsage.objects.filter(**whose), wanted)
    return [Day(day, *found.get((day,), (0, 0))) for day in wanted]


def sums(usage: QuerySet[DailyUsage], days: list[date], *by: str) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return requests and refusals by day, and by whatever else."""
    rows = (
        usage.filter(day__range=(days[0], days[-1]))
        .order_by()
        .values_list("day", *by)
        .annotate(Sum("requests"), Sum("refusals"))
    )
    return {tuple(place): (requests, refusals) for *place, requests, refusals in rows}


def top_accounts(limit: int = 10, today: date | None = None) -> list[QuotaCounter]:
    """Return what accounts have used of today's limit, the largest share first."""
    day = ((today or timezone.now().date()) - EPOCH).days
    per_day = Coalesce("account__per_day", "account__plan__per_day")
    share = Cast("day_used", FloatField()) / Cast(per_day, FloatField())
    used = QuotaCounter.objects.filter(day=day, day_used__gt=0).select_related("account__plan")
    return list(used.order_by(share.desc(), "account__name")[:limit])


def deprecated_callers(days: int = 30, limit: int = 20, today: date | None = None) -> list[Account]:
    """Return who called `getPet` in these days, who most first, each with `calls` and `last_call_at`."""
    wanted = last_days(days, today)
    callers = Account.objects.filter(
        deprecated_uses__operation="getPet", deprecated_uses__day__range=(wanted[0], wanted[-1])
    ).annotate(calls=Sum("deprecated_uses__requests"), last_call_at=Max("deprecated_uses__last_call_at"))
    return list(callers.order_by("-calls", "name")[:limit])


# --- Keys ----------------------------------------------------------------------------------------


def banned_now(now: datetime) -> Q:
    return Q(revoked_at=None, standing__banned_until__gt=microseconds(now))


def banned_keys(limit: int = 20, now: datetime | None = None) -> tuple[int, list[ApiKey]]:
    """Return how many keys are banned now and not revoked, and the first whose bans end."""
    found = (
        ApiKey.objects.filter(banned_now(now or timezone.now()))
        .annotate(total=Window(Count("pk")))
        .select_related("account", "standing")
        .order_by("standing__banned_until")
    )
    keys = list(with_ban_reason(found)[:limit])
    return getattr(keys[0], "total", 0) if keys else 0, keys


def with_ban_reason(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Return the keys, each with the `ban_reason` that its last ban had."""
    bans = AuditEntry.objects.filter(
        model=ApiKey._meta.label_lower,
        object_id=Cast(OuterRef("pk"), CharField()),
        action=AuditEntry.Action.BANNED,
    )
    reason = Subquery(bans.order_by("-id").values("reason")[:1])
    return keys.annotate(ban_reason=Coalesce(reason, Value("")))


class ExpiringKeys(NamedTuple):
    """How many end, replaced ones included, and the first few."""

    in_7_days: int
    in_30_days: int
    keys: list[ApiKey]  # `replaced`: by rotation, so that its account has the next key already.
    to_replace_in_7_days: int  # Of those of 7 days, the ones that have no successor.


def expiring_keys(limit: int = 20, now: datetime | None = None) -> ExpiringKeys:
    """Return the keys that end within 30 days, those without a successor first, then the soonest."""
    now = now or timezone.now()
    week = Q(expires_at__lte=now + timedelta(days=7))
    successor = ApiKey.objects.filter(rotated_from=OuterRef("pk"))
    ending = ApiKey.objects.filter(
        revoked_at=None, expires_at__gt=now, expires_at__lte=now + timedelta(days=30)
    ).annotate(replaced=Exists(successor))
    counts = ending.aggregate(
        seven=Count("pk", filter=week),
        thirty=Count("pk"),
        to_replace=Count("pk", filter=week & Q(replaced=False)),
    )
    found = ending.select_related("account").order_by("replaced", "expires_at", "pk")
    return ExpiringKeys(counts["seven"], counts["thirty"], list(found[:limit]), counts["to_replace"])


# --- What if -------------------------------------------------------------------------------------


class WhatIf(NamedTuple):
    """What other numbers would have refused."""

    days: int
    accounts: int  # That sent anything.
    requests: int  # Wanted: admitted, or refused for the quota.
    refused_by_minute: int
    refused_by_day: int
    refused_now: int  # By the numbers that hold today, reckoned in the same way: what to compare with.
    accounts_refused: int  # That would have been refused at least once.

    @property
    def refused(self) -> int:
        """Requests that the other numbers would have refused."""
        return self.refused_by_minute + self.refused_by_day


def what_if(row: Plan | Account, limits: Limits, *, days: int = 30, today: date | None = None) -> WhatIf:
    """Return how many requests of the last days these limits would have refused.

    For the accounts that are on a plan now, or for one account. The loads are exact; the answer is an
    estimate. A real window begins with the first request after the last one, here minutes are the clock's:
    a burst across two of them counts in each for a part, so the truth can be a little higher or lower. A
    refused request counts as wanted each time it was tried again, so where much was refused the answer is
    too high. Nobody knows what clients would have done instead. Requests during a ban are left out.
    """
    period = last_days(days, today)
    whose = Q(account__plan=row) if isinstance(row, Plan) else Q(account=row)
    requests = by_minute = by_day = refused_now = 0
    accounts: set[int] = set()
    touched: set[int] = set()
    for account, load, limits_now in day_loads(whose, period):
        wanted = sum(sent * times for sent, times in load.items())
        minute_refusals, day_refusals = refusals(load, wanted, limits)
        requests += wanted
        by_minute += minute_refusals
        by_day += day_refusals
        refused_now += sum(refusals(load, wanted, limits_now))
        accounts.add(account)
        if minute_refusals or day_refusals:
            touched.add(account)
    return WhatIf(days, len(accounts), requests, by_minute, by_day, refused_now, len(touched))


def day_loads(whose: Q, days: list[date]) -> Iterator[tuple[int, Counter[int], Limits]]:
    """Yield, for each account and day, how many minutes had how many requests, and today's limits."""
    limits = (
        Coalesce("account__per_minute", "account__plan__per_minute"),
        Coalesce("account__per_day", "account__plan__per_day"),
    )
    # The minutes that are not in the days' rows yet: a few thousand at most.
    waiting: dict[tuple[int, date], tuple[Counter[int], Limits]] = {}
    minutes_of = MinuteLoad.objects.filter(whose).values_list("account_id", "minute", "requests", *limits)
    for account, minute, sent, *now in minutes_of:
        day = moment(minute * MINUTE).date()
        waiting.setdefault((account, day), (Counter(), Limits(*now)))[0][sent] += 1
    rows = AccountDayLoad.objects.filter(whose, day__range=(days[0], days[-1]))
    for account, day, minutes, *now in rows.values_list("account_id", "day", "minutes", *limits).iterator():
        more, _ = waiting.pop((account, day), (Counter[int](), None))
        yield account, Counter({int(sent): times for sent, times in minutes.items()}) + more, Limits(*now)
    for (account, day), (load, limits_now) in waiting.items():
        if days[0] <= day <= days[-1]:
            yield account, load, limits_now


def refusals(load: Counter[int], wanted: int, limits: Limits) -> tuple[int, int]:
    """Return what limits refuse of a day's load: for the minute, and of what is left for the day."""
    of_minutes = sum(
        (sent - limits.per_minute) * times for sent, times in load.items() if sent > limits.per_minute
    )
    return of_minutes, max(0, wanted - of_minutes - limits.per_day)
