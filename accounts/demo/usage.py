"""Invented requests: with the shape of a week and of a day, growing over the history."""

from collections import Counter
from datetime import date, datetime, timedelta
from math import sqrt
from random import Random

from accounts.demo.customers import BATCH, Customer
from accounts.demo.keys import worked_on
from accounts.models import EPOCH, AccountDayLoad, DailyUsage, DeprecatedUse, QuotaCounter

WEEKDAYS = (1.0, 1.05, 1.02, 1.0, 0.9, 0.5, 0.4)  # From Monday on.
HOURS = (1, 1, 1, 1, 1, 2, 3, 5, 7, 8, 8, 7, 6, 7, 8, 8, 7, 6, 4, 3, 2, 2, 1, 1)  # Shares, in UTC.
LOADS_DAYS = 30

# Admitted and refused, by the customer's place in the cast and the day.
Demand = dict[tuple[int, date], tuple[int, int]]


def demand(choose: Random, cast: list[Customer], now: datetime, days: int) -> Demand:
    """Return what everybody sends: growing, less at weekends, never quite even; today as far as it went."""
    wanted: Demand = {}
    so_far = (sum(HOURS[: now.hour]) + HOURS[now.hour] * now.minute / 60) / sum(HOURS)
    for index, customer in enumerate(cast):
        for back in range(min(days - 1, customer.joined_days_ago), -1, -1):
            day = now.date() - timedelta(days=back)
            growth = (1 - 0.5 * back / days) * WEEKDAYS[day.weekday()] * choose.uniform(0.85, 1.15)
            requests = customer.limits.per_day * customer.level * growth * (so_far if back == 0 else 1)
            admitted = min(round(requests), customer.limits.per_day)
            refused = round(requests) - admitted
            if customer.bursts and choose.random() < 0.4:
                refused += round(admitted * choose.uniform(0.002, 0.03))
            wanted[index, day] = admitted, refused
    return wanted


def add_daily(choose: Random, cast: list[Customer], demand: Demand) -> None:
    """Share what an account sent among the keys that it had on that day."""
    rows = []
    for (index, day), sent in demand.items():
        admitted, refused = sent
        keys = [key for key in cast[index].keys if worked_on(key, day)]
        for number, key in enumerate(keys, 1):
            part = 1.0 if number == len(keys) else choose.uniform(0.5, 0.8)
            requests, refusals = round(admitted * part), round(refused * part)
            admitted, refused = admitted - requests, refused - refusals
            rows.append(DailyUsage(key=key, day=day, requests=requests, refusals=refusals))
    rows.sort(key=lambda row: row.day)
    DailyUsage.objects.bulk_create(rows, BATCH)


def add_today(cast: list[Customer], demand: Demand, today: date) -> None:
    """Let the quota know what was used today."""
    day = (today - EPOCH).days
    counters = [
        QuotaCounter(
            account=customer.account,
            minute_ends=0,
            minute_used=0,
            day=day,
            day_used=demand[index, today][0],
            seen_at=0,
            admitted=True,
        )
        for index, customer in enumerate(cast)
    ]
    QuotaCounter.objects.bulk_create(counters, BATCH)


def add_loads(choose: Random, cast: list[Customer], demand: Demand, today: date) -> None:
    """Spread each of the last 30 days over its minutes."""
    first = today - timedelta(days=LOADS_DAYS - 1)
    rows = [
        AccountDayLoad(
            account=cast[index].account,
            day=day,
            minutes=spread(choose, admitted, refused, cast[index].limits.per_minute),
        )
        for (index, day), (admitted, refused) in demand.items()
        if day >= first
    ]
    AccountDayLoad.objects.bulk_create(rows, BATCH)


def spread(choose: Random, admitted: int, refused: int, per_minute: int) -> dict[str, int]:
    """Return in how many minutes how many requests came: some minutes alike, and bursts.

    About as many as were admitted, and exactly those that were refused, as if all were for the minute.
    """
    minutes: Counter[int] = Counter()
    for share in HOURS:
        mean = admitted * share / sum(HOURS) / 60
        for _ in range(6):
            sent = round(choose.gauss(mean, sqrt(mean)) + choose.uniform(-0.5, 0.5))
            minutes[min(max(0, sent), per_minute)] += 10
    bursts = min(10, refused)
    for number in range(bursts):
        minutes[per_minute + (refused + number) // bursts] += 1
    del minutes[0]
    return {str(sent): times for sent, times in sorted(minutes.items())}


def add_deprecated_calls(choose: Random, cast: list[Customer], now: datetime, days: int) -> None:
    """Let some customers call getPet: ever less, and some have stopped."""
    rows = []
    for number, customer in enumerate(cast[1::5]):
        stopped = 0 if number % 3 else 12 * (number + 1)
        often = customer.limits.per_day * choose.uniform(0.001, 0.02)
        for back in range(min(days - 1, customer.joined_days_ago), stopped - 1, -1):
            at = now - timedelta(days=back, minutes=choose.uniform(0, min(600, now.hour * 60)))
            requests = round(often * (0.3 + back / days) * WEEKDAYS[at.weekday()] * choose.random())
            if requests:
                use = {"day": at.date(), "requests": requests, "last_call_at": at}
                rows.append(DeprecatedUse(account=customer.account, operation="getPet", **use))
    DeprecatedUse.objects.bulk_create(rows, BATCH)
