"""Invented refusals of the days for which they are kept."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from random import Random

from django.conf import settings

from accounts.demo.customers import BATCH, Customer
from accounts.demo.usage import Demand
from accounts.limits import moment
from accounts.models import KeyStanding, Refusal

MOST_OF_A_DAY = 12  # For each account.
# Method and route, the frequent ones more often.
CALLS = [("GET", "/v1/pets")] * 6 + [
    ("GET", "/v1/pets/{petId}"), ("POST", "/v1/pets"), ("GET", "/v1/store/orders"),
    ("POST", "/v1/store/orders"), ("GET", "/v1/categories"),
]  # fmt: skip


def add(choose: Random, cast: list[Customer], demand: Demand, now: datetime) -> None:
    """Add some refusals of each account and day on which there were any, and of the bans that run."""
    first = now.date() - timedelta(days=settings.REFUSALS_KEPT_DAYS - 1)
    rows = [
        refusal
        for (index, day), sent in demand.items()
        if day >= first
        for refusal in of_day(choose, cast[index], day, sent, now)
    ]
    rows += of_bans(choose, cast, now)
    rows.sort(key=lambda refusal: refusal.at)
    Refusal.objects.bulk_create(rows[-settings.REFUSALS_KEPT_MOST :], BATCH)


def of_day(
    choose: Random, customer: Customer, day: date, sent: tuple[int, int], now: datetime
) -> Iterator[Refusal]:
    """Yield refusals for the day where it is used up, else for the minute. `sent`: admitted, refused."""
    admitted, refused = sent
    begins = datetime.combine(day, time(), UTC)
    latest = min(begins + timedelta(days=1), now)
    limits = customer.limits
    for _ in range(min(refused, MOST_OF_A_DAY)):
        if admitted >= limits.per_day:
            at = latest - (latest - begins) * choose.uniform(0, 0.2)
            yield row(
                choose, customer, at, Refusal.Rule.DAY,
                minute_used=choose.randrange(limits.per_minute), day_used=limits.per_day,
            )  # fmt: skip
        else:
            share = choose.uniform(0.2, 1)
            at = begins + (latest - begins) * share
            used = max(limits.per_minute, round(admitted * share))
            yield row(
                choose, customer, at, Refusal.Rule.MINUTE,
                minute_used=limits.per_minute, day_used=min(used, limits.per_day - 1),
            )  # fmt: skip


def of_bans(choose: Random, cast: list[Customer], now: datetime) -> Iterator[Refusal]:
    """Yield the refusals of keys that are banned now."""
    owners = {key.pk: customer for customer in cast for key in customer.keys}
    for standing in KeyStanding.objects.filter(key__in=owners).order_by("key"):
        customer, began = owners[standing.key_id], moment(standing.banned_at)
        for _ in range(MOST_OF_A_DAY):
            at = began + (now - began) * choose.random()
            used = customer.limits.per_minute
            refusal = row(choose, customer, at, Refusal.Rule.BAN, minute_used=0, day_used=used)
            refusal.ban_ends_at = moment(standing.banned_until)
            yield refusal


def row(
    choose: Random, customer: Customer, at: datetime, rule: Refusal.Rule, *, minute_used: int, day_used: int
) -> Refusal:
    """Return a refusal of the customer's first key."""
    method, route = choose.choice(CALLS)
    return Refusal(
        request_id=f"{choose.getrandbits(128):032x}",
        at=at,
        account=customer.account,
        key=customer.keys[0],
        rule=rule,
        method=method,
        route=route,
        minute_limit=customer.limits.per_minute,
        minute_used=minute_used,
        minute_ends_at=at + timedelta(seconds=choose.uniform(1, 50)),
        day_limit=customer.limits.per_day,
        day_used=day_used,
        day_ends_at=datetime.combine(at.date() + timedelta(days=1), time(), UTC),
    )
