"""A made-up history for demonstrations: accounts, keys, and what they sent on each day.

The same choices give the same history. Nobody has the text of its keys: their digests are random.
"""

import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import product
from random import Random

from django.conf import settings

from accounts.bans import BAN_LENGTHS, Ban
from accounts.key_text import ACCOUNT_ID_LENGTH, BASE62, PUBLIC_ID_LENGTH
from accounts.limits import MINUTE, microseconds, moment
from accounts.models import (
    EPOCH,
    ROTATION_OVERLAP,
    Account,
    AccountDayLoad,
    ApiKey,
    DailyUsage,
    DeprecatedUse,
    KeyStanding,
    Plan,
    PlanCode,
    QuotaCounter,
    Refusal,
    key_mode,
    signing_pepper,
)
from petstore.api.client_ip import NOWHERE
from petstore.backoffice.audit import Action
from petstore.backoffice.models import AuditEntry

BATCH = 2_000
PLACES = "Amber Brook Cedar Coast Elm Harbour Hill Island Juniper Lake Meadow Orchard River Station".split()
KINDS = "Pets|Rescue|Animal Clinic|Pet Supplies|Adoption|Kennels".split("|")
STAFF = ("maria", "tom", "ingrid")
PLANS = [  # Of eight accounts, four pay nothing.
    PlanCode.FREE, PlanCode.PRO, PlanCode.FREE, PlanCode.BUSINESS,
    PlanCode.FREE, PlanCode.PRO, PlanCode.FREE, PlanCode.ENTERPRISE,
]  # fmt: skip
SECOND_KEYS = ("in use", "revoked", "rotated", 3, 20, -9)  # Or how many days from now they end.
BANNED = 3  # Keys that are banned now,
BANNED_AGO = 12 * MINUTE  # and since when.
WEEKDAYS = (1.0, 1.05, 1.02, 1.0, 0.9, 0.5, 0.4)  # From Monday on.
HOURS = (1, 1, 1, 1, 1, 2, 3, 5, 7, 8, 8, 7, 6, 7, 8, 8, 7, 6, 4, 3, 2, 2, 1, 1)  # Shares, in UTC.
RECENT_DAYS = 30  # For which there are loads and deprecated calls.
REFUSALS_OF_A_DAY = 5  # At most, for each account.


@dataclass
class Customer:
    """An account, and what it sent: admitted and refused requests by day."""

    account: Account
    keys: list[ApiKey] = field(default_factory=list)
    sent: dict[date, tuple[int, int]] = field(default_factory=dict)


def add_history(choose: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Add accounts with so many days of history, in a transaction; return them, the oldest first."""
    customers = add_accounts(choose, now, days, count)
    add_keys(choose, now, customers)
    for customer in customers:
        customer.sent = demand(choose, customer, now, days)
    today = (now.date() - EPOCH).days
    unused = {"minute_ends": 0, "minute_used": 0, "seen_at": 0, "admitted": True, "day": today}
    QuotaCounter.objects.bulk_create(
        QuotaCounter(account=customer.account, day_used=customer.sent[now.date()][0], **unused)
        for customer in customers
    )
    DailyUsage.objects.bulk_create((row for one in customers for row in daily_usage(one)), BATCH)
    AccountDayLoad.objects.bulk_create((row for one in customers for row in loads(choose, one)), BATCH)
    DeprecatedUse.objects.bulk_create(
        (row for one in customers[1::5] for row in deprecated_calls(choose, one, now)), BATCH
    )
    refused = [row for one in customers for row in refusals(choose, one, now)]
    refused += ban(choose, now, customers)
    refused.sort(key=lambda row: row.at)
    Refusal.objects.bulk_create(refused[-settings.REFUSALS_KEPT_MOST :], BATCH)
    return [customer.account for customer in customers]


def public_id(choose: Random, length: int) -> str:
    return "".join(choose.choices(BASE62, k=length))


def add_accounts(choose: Random, now: datetime, days: int, count: int) -> list[Customer]:
    """Add accounts on all plans; the first third is as old as the history."""
    plans = {plan.code: plan for plan in Plan.objects.all()}
    taken = set(Account.objects.values_list("name", flat=True))
    names = [f"{place} {kind}" for place, kind in product(PLACES, KINDS)]
    choose.shuffle(names)
    names += [f"Branch {number}" for number in range(1, count + len(taken) + 1)]
    accounts = [
        Account(public_id=public_id(choose, ACCOUNT_ID_LENGTH), name=name, plan=plans[PLANS[number % 8]])
        for number, name in enumerate([name for name in names if name not in taken][:count])
    ]
    for account in accounts[7::8]:  # Enterprise has numbers of its own.
        account.per_minute, account.per_day = 3_000, 120_000
    Account.objects.bulk_create(accounts, BATCH)
    for number, account in enumerate(accounts):
        joined = days if number < count / 3 else choose.randint(1, days)
        account.created_at = now - timedelta(days=joined, minutes=5)
    Account.objects.bulk_update(accounts, ["created_at"], BATCH)
    return [Customer(account) for account in accounts]


def add_keys(choose: Random, now: datetime, customers: list[Customer]) -> None:
    """Add a key for each customer and a second one for most, in every state; and what happened to them."""
    successors: list[ApiKey] = []
    for number, customer in enumerate(customers):
        customer.keys.append(new_key(choose, now, customer.account, "Production"))
        if number % 4 == 3:
            continue
        second = new_key(choose, now, customer.account, choose.choice(("Website", "Till", "Reports")))
        customer.keys.append(second)
        match SECOND_KEYS[number % len(SECOND_KEYS)]:
            case "revoked":
                second.revoked_at = now - (now - second.created_at) * choose.uniform(0.1, 0.6)
                second.revoked_reason = "Found in a public repository."
            case "rotated":
                second.expires_at = now + timedelta(hours=10)
                successor = new_key(choose, now, customer.account, second.name)
                successor.created_at, successor.rotated_from = second.expires_at - ROTATION_OVERLAP, second
                successors.append(successor)
            case int(days):
                end = now + timedelta(days=days)
                second.expires_at = max(end, second.created_at + timedelta(hours=1))
        if end_at := ends_at(second):
            second.last_used_at = min(now, end_at) - timedelta(minutes=3)
    keys = [key for customer in customers for key in customer.keys]
    ApiKey.objects.bulk_create(keys, BATCH)
    ApiKey.objects.bulk_create(successors, BATCH)
    events = [event for key in keys + successors for event in key_events(choose, key)]
    AuditEntry.objects.bulk_create(sorted(events, key=lambda event: event.at), BATCH)


def new_key(choose: Random, now: datetime, account: Account, name: str) -> ApiKey:
    """Return a key about as old as its account. Its digest is random: no text has it."""
    return ApiKey(
        account=account,
        public_id=account.public_id + public_id(choose, PUBLIC_ID_LENGTH - ACCOUNT_ID_LENGTH),
        mode=key_mode(),
        name=name,
        digest=secrets.token_hex(32),
        pepper_number=signing_pepper(),
        created_at=account.created_at + timedelta(minutes=2),
        last_used_at=now - timedelta(minutes=choose.uniform(1, 600)),
    )


def ends_at(key: ApiKey) -> datetime | None:
    return key.revoked_at or key.expires_at


def key_events(choose: Random, key: ApiKey) -> Iterator[AuditEntry]:
    """Yield what staff did with a key."""
    by = choose.choice(STAFF)
    yield entry(key, Action.ISSUED, key.created_at, by)
    if key.revoked_at is not None:
        yield entry(key, Action.REVOKED, key.revoked_at, by, key.revoked_reason)
    if key.rotated_from is not None:
        yield entry(key.rotated_from, Action.ROTATED, key.created_at, by, f"Replaced by {key.public_id}.")


def entry(key: ApiKey, action: Action, at: datetime, by: str, reason: str = "") -> AuditEntry:
    """Return an entry of the audit trail that is not stored yet."""
    row = {"model": key._meta.label_lower, "object_id": str(key.pk), "object_text": str(key)}
    return AuditEntry(**row, action=action, at=at, actor_name=by, reason=reason, address=str(NOWHERE))


def ban(choose: Random, now: datetime, customers: list[Customer]) -> list[Refusal]:
    """Ban some keys, as the service does when a client ignores 429; return those refused."""
    began, refused = microseconds(now) - BANNED_AGO, []
    for level, customer in enumerate(customers[2::4][:BANNED], 1):
        key, length = customer.keys[0], BAN_LENGTHS[level]
        until = began + length
        KeyStanding.objects.bulk_create(
            [KeyStanding(key=key, banned_at=began, banned_until=until, ban_level=level + 1)]
        )
        reason = Ban(key.pk, began, until, level + 1, 312).reason
        entry(key, Action.BANNED, moment(began), "the service", reason).save()
        for _ in range(REFUSALS_OF_A_DAY):
            row = refusal(choose, key, moment(began + round(BANNED_AGO * choose.random())))
            row.rule, row.ban_ends_at = Refusal.Rule.BAN, moment(until)
            refused.append(row)
    return refused


def demand(choose: Random, customer: Customer, now: datetime, days: int) -> dict[date, tuple[int, int]]:
    """Return what was admitted and refused on each day: growing, less at weekends; today until now."""
    sent = {}
    limits = customer.account.limits
    level = choose.betavariate(1.6, 3.2) * 1.4  # Share of the daily limit that is wanted today.
    bursts = choose.random() < 0.3
    so_far = (sum(HOURS[: now.hour]) + HOURS[now.hour] * now.minute / 60) / sum(HOURS)
    joined = (now - customer.account.created_at).days
    for back in range(min(days, joined) - 1, -1, -1):
        day = now.date() - timedelta(days=back)
        share = level * (1 - 0.5 * back / days) * WEEKDAYS[day.weekday()] * choose.uniform(0.85, 1.15)
        wanted = round(limits.per_day * share * (so_far if back == 0 else 1))
        admitted = min(wanted, limits.per_day)
        refused = wanted - admitted + (admitted // choose.randint(30, 300) if bursts else 0)
        sent[day] = admitted, refused
    return sent


def daily_usage(customer: Customer) -> Iterator[DailyUsage]:
    """Share what an account sent among the keys that worked on that day."""
    for day, (admitted, refused) in customer.sent.items():
        keys = [key for key in customer.keys if (end := ends_at(key)) is None or day <= end.date()]
        for number, key in enumerate(keys):
            requests = admitted // len(keys) + (admitted % len(keys) if number == 0 else 0)
            yield DailyUsage(key=key, day=day, requests=requests, refusals=0 if number else refused)


def loads(choose: Random, customer: Customer) -> Iterator[AccountDayLoad]:
    """Yield how many requests came in how many minutes, for the last days."""
    per_minute = customer.account.limits.per_minute
    for day, (admitted, refused) in list(customer.sent.items())[-RECENT_DAYS:]:
        minutes: Counter[int] = Counter()
        # The bursts, in which the minute's limit refuses some, are part of what was sent.
        bursts = min(10, refused, admitted // (2 * per_minute))
        calm = admitted + refused - (bursts * per_minute + refused if bursts else 0)
        for hour_share in HOURS:
            mean = calm * hour_share / sum(HOURS) / 60
            for _ in range(6):
                some = round(mean * choose.uniform(0.5, 1.5) + choose.uniform(-0.5, 0.5))
                minutes[min(max(0, some), per_minute)] += 10
        for number in range(bursts):
            minutes[per_minute + (refused + number) // bursts] += 1
        del minutes[0]
        yield AccountDayLoad(account=customer.account, day=day, minutes=dict(sorted(minutes.items())))


def deprecated_calls(choose: Random, customer: Customer, now: datetime) -> Iterator[DeprecatedUse]:
    """Yield calls of getPet in the last days."""
    for day, (admitted, _) in list(customer.sent.items())[-RECENT_DAYS:]:
        if requests := round(admitted * choose.uniform(0, 0.02)):
            last = now if day == now.date() else datetime.combine(day, time(17), UTC)
            use = {"day": day, "requests": requests, "last_call_at": last}
            yield DeprecatedUse(account=customer.account, operation="getPet", **use)


def refusals(choose: Random, customer: Customer, now: datetime) -> Iterator[Refusal]:
    """Yield some refusals of each day: by the day's limit where that is used up, else by the minute's."""
    first = now.date() - timedelta(days=settings.REFUSALS_KEPT_DAYS - 1)
    limits = customer.account.limits
    for day, (admitted, refused) in customer.sent.items():
        begins = datetime.combine(day, time(), UTC)
        ends = min(begins + timedelta(days=1), now)
        for _ in range(min(refused, REFUSALS_OF_A_DAY) if day >= first else 0):
            row = refusal(choose, customer.keys[0], ends - (ends - begins) * choose.uniform(0, 0.2))
            if admitted >= limits.per_day:
                row.rule, row.day_used = Refusal.Rule.DAY, limits.per_day
            else:
                row.minute_used, row.day_used = limits.per_minute, max(limits.per_minute, admitted)
            yield row


def refusal(choose: Random, key: ApiKey, at: datetime) -> Refusal:
    """Return a refusal for the minute; nothing is used yet."""
    limits = key.account.limits
    return Refusal(
        request_id=f"{choose.getrandbits(128):032x}",
        at=at,
        account=key.account,
        key=key,
        rule=Refusal.Rule.MINUTE,
        method="GET",
        route=choose.choice(("/v1/pets", "/v1/pets/{petId}", "/v1/categories")),
        minute_limit=limits.per_minute,
        minute_used=0,
        minute_ends_at=at + timedelta(seconds=choose.uniform(1, 50)),
        day_limit=limits.per_day,
        day_used=0,
        day_ends_at=datetime.combine(at.date() + timedelta(days=1), time(), UTC),
    )
