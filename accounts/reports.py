"""Numbers for the back office, each from one or two queries that read aggregates or a few rows by an index.

Days are UTC days, the present one included. The numbers lag up to ten seconds behind the requests.
"""

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Exists, F, FloatField, Max, OuterRef, Q, Sum, Window
from django.db.models.functions import Cast, Coalesce

from accounts.limits import moment
from accounts.models import (
    EPOCH,
    AccountDayLoad,
    ApiKey,
    DailyUsage,
    DeprecatedUse,
    KeyStanding,
    PlanCode,
    QuotaCounter,
)
from accounts.quota.key_record import microseconds


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def last_days(days: int, today: date | None) -> list[date]:
    """Return that many days up to today, the oldest first."""
    end = today or utc_now().date()
    return [end - timedelta(days=back) for back in reversed(range(days))]


# --- Requests ------------------------------------------------------------------------------------


class PlanDay(NamedTuple):
    """What the accounts of a plan sent on one day."""

    day: date
    plan: str
    requests: int  # Admitted.
    refusals: int


def requests_by_plan(days: int = 30, today: date | None = None) -> list[PlanDay]:
    """Return requests and refusals for every day and plan, also where there were none, in that order.

    An account counts for the plan that it has now, on days before it had it as well.
    """
    wanted = last_days(days, today)
    rows = (
        DailyUsage.objects.filter(day__range=(wanted[0], wanted[-1]))
        .order_by()
        .values_list("day", "key__account__plan")
        .annotate(Sum("requests"), Sum("refusals"))
    )
    found = {(day, plan): (requests, refusals) for day, plan, requests, refusals in rows}
    return [
        PlanDay(day, plan, *found.get((day, plan), (0, 0))) for day in wanted for plan in PlanCode.values
    ]


class UsageDay(NamedTuple):
    """What one account sent on one day."""

    day: date
    requests: int  # Admitted.
    refusals: int


def account_usage(account_id: int, days: int = 30, today: date | None = None) -> list[UsageDay]:
    """Return what an account sent with all its keys, for every day, the oldest first."""
    wanted = last_days(days, today)
    rows = (
        DailyUsage.objects.filter(key__account=account_id, day__range=(wanted[0], wanted[-1]))
        .order_by()
        .values_list("day")
        .annotate(Sum("requests"), Sum("refusals"))
    )
    found = {day: (requests, refusals) for day, requests, refusals in rows}
    return [UsageDay(day, *found.get(day, (0, 0))) for day in wanted]


class AccountToday(NamedTuple):
    """How much of its daily limit an account has used."""

    account_id: int
    name: str
    plan: str
    requests: int  # Admitted.
    per_day: int
    share: float  # 1.0 is all of it; more where the limit was lowered meanwhile.


def top_accounts(limit: int = 10, today: date | None = None) -> list[AccountToday]:
    """Return the accounts that have used the largest share of today's limit, the largest first."""
    day = ((today or utc_now().date()) - EPOCH).days
    per_day = Coalesce("account__per_day", "account__plan__per_day")
    rows = (
        QuotaCounter.objects.filter(day=day, day_used__gt=0)
        .annotate(limit=per_day, share=Cast("day_used", FloatField()) / Cast(per_day, FloatField()))
        .order_by("-share", "account__name")
        .values_list("account_id", "account__name", "account__plan", "day_used", "limit", "share")
    )
    return [AccountToday(*row) for row in rows[:limit]]


class DeprecatedCaller(NamedTuple):
    """An account that still calls an operation that will be removed."""

    account_id: int
    account_name: str
    plan: str
    requests: int  # Admitted.
    last_call_at: datetime


def deprecated_callers(
    days: int = 30, limit: int = 20, today: date | None = None, operation: str = "getPet"
) -> list[DeprecatedCaller]:
    """Return who called the operation in these days, who calls most first."""
    wanted = last_days(days, today)
    rows = (
        DeprecatedUse.objects.filter(operation=operation, day__range=(wanted[0], wanted[-1]))
        .values_list("account_id", "account__name", "account__plan")
        .annotate(sent=Sum("requests"), last=Max("last_call_at"))
        .order_by("-sent", "account__name")
    )
    return [DeprecatedCaller(*row) for row in rows[:limit]]


# --- Keys ----------------------------------------------------------------------------------------


class BannedKey(NamedTuple):
    """A key that is banned now."""

    key_id: int
    public_id: str
    key_name: str
    account_id: int
    account_name: str
    banned_at: datetime
    ban_ends_at: datetime


class BannedKeys(NamedTuple):
    """All of them, and the first few."""

    total: int
    keys: list[BannedKey]


def banned_keys(limit: int = 20, now: datetime | None = None) -> BannedKeys:
    """Return the keys that are banned now and not revoked, whose ban ends first before the others."""
    rows = (
        KeyStanding.objects.filter(banned_until__gt=microseconds(now or utc_now()), key__revoked_at=None)
        .annotate(total=Window(Count("pk")))
        .order_by("banned_until")
        .values_list(
            "total", "key_id", "key__public_id", "key__name", "key__account_id", "key__account__name",
            "banned_at", "banned_until",
        )[:limit]
    )  # fmt: skip
    found = list(rows)
    keys = [BannedKey(*row[1:6], moment(row[6]), moment(row[7])) for row in found]
    return BannedKeys(found[0][0] if found else 0, keys)


class ExpiringKey(NamedTuple):
    """A key that ends soon."""

    key_id: int
    public_id: str
    key_name: str
    account_id: int
    account_name: str
    expires_at: datetime
    replaced: bool  # By rotation: its account has the next key already.


class ExpiringKeys(NamedTuple):
    """How many end, replaced ones included, and the first few."""

    in_7_days: int
    in_30_days: int
    keys: list[ExpiringKey]
    to_replace_in_7_days: int  # Of those of 7 days, the ones that have no successor.


def expiring_keys(within_days: int = 30, limit: int = 20, now: datetime | None = None) -> ExpiringKeys:
    """Return the keys that end within so many days, the soonest first; the counts are of 7 and 30 days."""
    now = now or utc_now()

    def within(days: int) -> Q:
        return Q(expires_at__lte=now + timedelta(days=days))

    successor = ApiKey.objects.filter(rotated_from=OuterRef("pk"))
    ending = ApiKey.objects.filter(revoked_at=None, expires_at__gt=now).annotate(replaced=Exists(successor))
    counts = ending.filter(within(30)).aggregate(
        seven=Count("pk", filter=within(7)),
        thirty=Count("pk"),
        to_replace=Count("pk", filter=within(7) & Q(replaced=False)),
    )
    rows = (
        ending.filter(within(within_days))
        .order_by("expires_at", "pk")
        .values_list(
            "pk", "public_id", "name", "account_id", "account__name", "expires_at", "replaced"
        )
    )  # fmt: skip
    keys = [ExpiringKey(*row) for row in rows[:limit]]  # type: ignore[arg-type]  # Each has an end.
    return ExpiringKeys(counts["seven"], counts["thirty"], keys, counts["to_replace"])


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


def what_if(
    per_minute: int,
    per_day: int,
    *,
    plan: str | None = None,
    account_id: int | None = None,
    days: int = 30,
    today: date | None = None,
) -> WhatIf:
    """Return how many requests of the last days these numbers would have refused.

    For the accounts that are on a plan now, or for one account. The loads are exact; the answer is an
    estimate. A real window begins with the first request after the last one, here minutes are the clock's:
    a burst across two of them counts in each for a part, so the truth can be a little higher or lower. A
    refused request counts as wanted each time it was tried again, so where much was refused the answer is
    too high. Nobody knows what clients would have done instead. Requests during a ban are left out, and so
    are the last minutes, up to seventeen. Raises ValueError unless either a plan or an account is named.
    """
    if (plan is None) == (account_id is None):
        raise ValueError("Name a plan or an account, and not both.")
    wanted = last_days(days, today)
    loads = AccountDayLoad.objects.filter(day__range=(wanted[0], wanted[-1]))
    loads = loads.filter(account__plan=plan) if plan is not None else loads.filter(account=account_id)
    rows = loads.values_list(
        "account_id",
        "minutes",
        Coalesce(F("account__per_minute"), F("account__plan__per_minute")),
        Coalesce(F("account__per_day"), F("account__plan__per_day")),
    )
    requests = by_minute = by_day = refused_now = 0
    accounts: set[int] = set()
    touched: set[int] = set()
    for account, minutes, minute_limit_now, day_limit_now in rows.iterator():
        load = [(int(sent), times) for sent, times in minutes.items()]
        wanted = sum(sent * times for sent, times in load)
        minute_refusals, day_refusals = refusals(load, wanted, per_minute, per_day)
        requests += wanted
        by_minute += minute_refusals
        by_day += day_refusals
        refused_now += sum(refusals(load, wanted, minute_limit_now, day_limit_now))
        accounts.add(account)
        if minute_refusals or day_refusals:
            touched.add(account)
    return WhatIf(days, len(accounts), requests, by_minute, by_day, refused_now, len(touched))


def refusals(load: list[tuple[int, int]], wanted: int, per_minute: int, per_day: int) -> tuple[int, int]:
    """Return what limits refuse of a day's load: for the minute, and of what is left for the day."""
    of_minutes = sum((sent - per_minute) * times for sent, times in load if sent > per_minute)
    return of_minutes, max(0, wanted - of_minutes - per_day)
