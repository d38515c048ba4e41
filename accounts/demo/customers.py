"""Invented customers."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import product
from random import Random

from accounts.key_text import ACCOUNT_ID_LENGTH, BASE62
from accounts.limits import Limits
from accounts.models import Account, ApiKey, Plan, PlanCode

BATCH = 2_000
KINDS = "Pets, Rescue, Animal Clinic, Pet Supplies, Adoption, Kennels, Aquatics, Farm Shop, Boarding".split(
    ", "
)
PLACES = """
Amber Birch Brook Cedar Clover Coast Elm Fern Garden Harbour Hazel Heath Highland Hill Island Ivy Juniper
Lake Laurel Maple Meadow Mill Moor North Oak Orchard Park Pine Poplar Quarry River Rowan Sage South Spring
Station Stone Sunny Thistle Tower Valley Village Vine West Willow Wood
""".split()
# Of twelve, six pay nothing and one has numbers of its own.
PLANS = [
    PlanCode.FREE, PlanCode.PRO, PlanCode.FREE, PlanCode.BUSINESS, PlanCode.FREE, PlanCode.PRO,
    PlanCode.FREE, PlanCode.FREE, PlanCode.PRO, PlanCode.ENTERPRISE, PlanCode.FREE, PlanCode.BUSINESS,
]  # fmt: skip


@dataclass
class Customer:
    """An account, and how it behaves."""

    account: Account
    limits: Limits
    joined_days_ago: int
    level: float  # Share of its daily limit that it wants on a working day at the end of the history.
    bursts: bool  # Wants more in some minutes than it may.
    keys: list[ApiKey] = field(default_factory=list)


def public_id(choose: Random, length: int) -> str:
    """Return a random public id; it is no secret."""
    return "".join(choose.choices(BASE62, k=length))


def names(choose: Random, count: int) -> list[str]:
    """Return names that no account has."""
    taken = set(Account.objects.values_list("name", flat=True))
    free = [f"{place} {kind}" for place, kind in product(PLACES, KINDS)]
    choose.shuffle(free)
    free += [f"Branch {number}" for number in range(1, count + len(taken) + 1)]
    return [name for name in free if name not in taken][:count]


def add(choose: Random, now: datetime, days: int, count: int) -> list[Customer]:
    """Add accounts on all plans; the first third is as old as the history."""
    plans = {plan.code: plan for plan in Plan.objects.all()}
    cast = []
    for number, name in enumerate(names(choose, count)):
        code = PLANS[number % len(PLANS)]
        account = Account(public_id=public_id(choose, ACCOUNT_ID_LENGTH), name=name, plan=plans[code])
        if code == PlanCode.ENTERPRISE:
            account.per_minute = choose.choice((2_000, 3_000, 5_000))
            account.per_day = choose.choice((120_000, 200_000))
        joined = days if number < count / 3 else choose.randint(1, days)
        level = choose.betavariate(1.6, 3.2) * 1.4
        cast.append(Customer(account, account.limits, joined, level, bursts=number % 4 == 2))
    Account.objects.bulk_create([customer.account for customer in cast], BATCH)
    for customer in cast:
        customer.account.created_at = now - timedelta(days=customer.joined_days_ago, minutes=5)
    Account.objects.bulk_update([customer.account for customer in cast], ["created_at"], BATCH)
    return cast
