"""Generates a demo history: accounts, keys, and their usage, bans and rejections.

The same random seed gives the same history, except for the digests, which are always random, so that no key
can authenticate.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.core.signing import BASE62_ALPHABET
from django.db.models import Model

from accounts.actions import Action
from accounts.keys.key_format import ACCOUNT_ID_LENGTH, PUBLIC_ID_LENGTH
from accounts.models import (
    EPOCH,
    ROTATION_OVERLAP,
    Account,
    ApiKey,
    DailyUsage,
    DeprecatedUse,
    MinuteHistogram,
    OperationUsage,
    Plan,
    PlanCode,
    QuotaUsage,
    RateLimitState,
    Rejection,
    UsageGeneration,
    get_key_mode,
    get_signing_pepper_number,
)
from accounts.models.api_keys import SERVICE
from accounts.quota import bans
from accounts.quota.bans import BAN_LENGTHS, get_rejections_to_ban
from accounts.quota.limits import DAY, MINUTE, to_datetime, to_microseconds
from accounts.usage.retention import OPERATION_USAGE_DAYS
from petstore.api.client_ip import NO_ADDRESS
from petstore.audit.models import AuditEntry

BATCH_SIZE = 2_000
PLACES = "Amber Brook Cedar Coast Elm Harbour Hill Island Juniper Lake Meadow Orchard River Station".split()
BUSINESSES = "Pets|Rescue|Animal Clinic|Pet Supplies|Adoption|Kennels".split("|")
PLANS = [
    PlanCode.FREE, PlanCode.PRO, PlanCode.FREE, PlanCode.BUSINESS,
    PlanCode.FREE, PlanCode.PRO, PlanCode.FREE, PlanCode.ENTERPRISE,
]  # fmt: skip
# The states of the accounts' second keys, assigned in turn. An integer is the number of days until expiry.
SECOND_KEY_STATES = ("in use", "revoked", "rotated", 3, 20, -9)
BAN_LEVELS = {2: 1, 6: 2, 10: 3}  # Of the accounts' first keys, by index. The others are not banned.
BAN_AGE = 12 * MINUTE
WEEKDAY_FACTORS = (1.0, 1.05, 1.02, 1.0, 0.9, 0.5, 0.4)  # Monday first.
MINUTES_PER_DAY = 24 * 60
RECENT_DAYS = 30  # The days that have minute counts and deprecated calls.
ROUTES = [f"/v1/{name}" for name in "pets store/orders pets categories pets store/orders pets".split()]

Orders = Counter[tuple[int, int]]  # Placed orders, by account ID and hour since the epoch.


def add_history(
    rng: Random, now: datetime, days: int, count: int, add_orders: Callable[[list[Account]], Orders]
) -> Orders:
    """Add `count` accounts with up to `days` of history, and their orders. Call it in a transaction."""
    accounts = add_accounts(rng, now, days, count)
    rows: dict[type[Model], list[Any]] = defaultdict(list)
    keys = add_keys(rng, now, accounts)
    orders = add_orders(accounts)
    for index, account_keys in enumerate(keys):
        for row in generate_usage_rows(rng, now, days, account_keys, index, orders=orders):
            rows[type(row)].append(row)
    rows[Rejection].sort(key=lambda rejection: rejection.rejected_at)
    rows[AuditEntry].sort(key=lambda entry: entry.at)
    for model, instances in rows.items():
        model._default_manager.bulk_create(instances, BATCH_SIZE)
    return orders


def add_accounts(rng: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Create accounts. The first third date back to the start of the history."""
    plans, first = Plan.objects.in_bulk(), Account.objects.count()
    names = [f"{place} {business}" for business in BUSINESSES for place in PLACES]
    accounts = []
    for index in range(count):
        repetition, name_index = divmod(first + index, len(names))
        name = names[name_index] + (f" {repetition + 1}" if repetition else "")
        account = Account(name=name, plan=plans[PLANS[index % len(PLANS)]])
        account.public_id = "".join(rng.choices(BASE62_ALPHABET, k=ACCOUNT_ID_LENGTH))
        if account.plan_id == PlanCode.ENTERPRISE:
            account.per_minute, account.per_day = 3_000, 120_000
        accounts.append(account)
    Account.objects.bulk_create(accounts, BATCH_SIZE)
    for index, account in enumerate(accounts):  # After bulk_create(), which sets the times to now.
        age = days if index < count / 3 else rng.randint(1, days)
        account.created_at = now - timedelta(days=age, minutes=5)
    Account.objects.bulk_update(accounts, ["created_at"], BATCH_SIZE)
    return accounts


def add_keys(rng: Random, now: datetime, accounts: list[Account]) -> list[list[ApiKey]]:
    """Add two keys in various states for each account, any replacement, and their audit trail."""
    keys, replacements, entries = [], {}, []
    for index, account in enumerate(accounts):
        first, second = build_key(rng, now, account, "Production"), build_key(rng, now, account, "Website")
        match SECOND_KEY_STATES[index % len(SECOND_KEY_STATES)]:
            case "revoked":
                second.revoked_at = now - (now - second.created_at) * rng.uniform(0.1, 0.6)
                second.revoked_reason = "Found in a public repository."
                entries.append((second, Action.REVOKED, second.revoked_at, second.revoked_reason))
            case "rotated":
                second.expires_at = now + timedelta(hours=10)
                replacement = build_key(rng, now, account, second.name)
                replacement.created_at = second.expires_at - ROTATION_OVERLAP
                replacement.rotated_from = second
                replacements[index] = replacement
                reason = f"Replaced by {replacement.public_id}."
                entries.append((second, Action.ROTATED, replacement.created_at, reason))
            case int(days):
                second.expires_at = max(now + timedelta(days=days), second.created_at + timedelta(hours=1))
        end = min(now, second.revoked_at or second.expires_at or now)
        second.last_used_at = get_last_use(end, timedelta(minutes=3))
        keys.append([first, second])
    initial_keys = [key for pair in keys for key in pair]
    ApiKey.objects.bulk_create(initial_keys, BATCH_SIZE)
    ApiKey.objects.bulk_create(replacements.values(), BATCH_SIZE)
    for index, replacement in replacements.items():
        keys[index].append(replacement)
    entries += [(key, Action.ISSUED, key.created_at, "") for own in keys for key in own]
    trail = [build_audit_entry(*entry) for entry in sorted(entries, key=lambda entry: entry[2])]
    AuditEntry.objects.bulk_create(trail, BATCH_SIZE)
    return keys


def build_key(rng: Random, now: datetime, account: Account, name: str) -> ApiKey:
    suffix = "".join(rng.choices(BASE62_ALPHABET, k=PUBLIC_ID_LENGTH - ACCOUNT_ID_LENGTH))
    return ApiKey(
        account=account,
        public_id=account.public_id + suffix,
        mode=get_key_mode(),
        name=name,
        digest=secrets.token_hex(32),
        pepper_number=get_signing_pepper_number(),
        created_at=account.created_at + timedelta(minutes=2),
        last_used_at=get_last_use(now, timedelta(minutes=rng.uniform(0, 2))),
    )


def get_last_use(end: datetime, age: timedelta) -> datetime:
    """Return a time before `end` on the same UTC day, whose usage includes it."""
    return end - min(age, (end - datetime.combine(end.date(), time(), UTC)) / 2)


def build_audit_entry(key: ApiKey, action: Action, at: datetime, reason: str = "") -> AuditEntry:
    return AuditEntry(
        model=key._meta.label_lower,
        object_id=str(key.pk),
        object_text=str(key),
        action=action,
        at=at,
        actor_name=SERVICE.name,
        reason=reason,
        address=str(NO_ADDRESS),
    )


def generate_ban_rows(rng: Random, now: datetime, key: ApiKey, level: int, by_ban: int) -> Iterator[Model]:
    """Yield today's ban of a key for ignoring 429, its audit entry, and the rejections around it."""
    age = min(BAN_AGE, to_microseconds(now) % DAY // 2)  # The first rejections are from today, too.
    started_at = to_microseconds(now) - age
    ends_at = started_at + BAN_LENGTHS[level]
    by_minute = get_rejections_to_ban(key.account.limits.per_minute)
    yield RateLimitState(key=key, banned_at=started_at, banned_until=ends_at, ban_level=level + 1)
    reason = bans.describe(by_minute, ends_at - started_at)
    yield build_audit_entry(key, Action.BANNED, to_datetime(started_at), reason)
    previous = started_at
    for length in reversed(BAN_LENGTHS[:level]):  # A first ban is short; earlier ones led to this level.
        previous -= length + 2 * MINUTE
        yield build_audit_entry(key, Action.BANNED, to_datetime(previous), bans.describe(by_minute, length))
    for number in range(by_minute):
        at = to_datetime(started_at - round(min(MINUTE, age) * rng.random()))
        yield build_rejection(rng, key, at, Rejection.Reason.MINUTE, number)
    for number in range(by_minute, by_minute + by_ban):
        at = to_datetime(started_at + round(age * rng.random()))
        yield build_rejection(rng, key, at, Rejection.Reason.BAN, number, ban_ends_at=to_datetime(ends_at))


def generate_usage_rows(
    rng: Random, now: datetime, days: int, keys: list[ApiKey], index: int, *, orders: Orders
) -> Iterator[Model]:
    """Yield the usage rows of an account. Its traffic grows over time and drops on weekends."""
    account, ban_level, today = keys[0].account, BAN_LEVELS.get(index), now.date()
    limits, admitted = account.limits, 0
    current_share = 1.2 if index % 8 == 0 else rng.betavariate(1.6, 3.2) * 1.4  # Of the daily limit.
    has_bursts = rng.random() < 0.3 and not ban_level
    for days_ago in range(min(days, (now - account.created_at).days) - 1, -1, -1):
        day = today - timedelta(days=days_ago)
        day_start = datetime.combine(day, time(), UTC)
        day_end = min(now, day_start + timedelta(days=1))
        minutes = MINUTES_PER_DAY if days_ago else now.hour * 60 + now.minute + 1
        first_hour = (day - EPOCH).days * 24
        placed = [orders[account.pk, first_hour + hour] for hour in range(24)]
        weekday_share = WEEKDAY_FACTORS[day.weekday()] * rng.uniform(0.85, 1.15)
        share = current_share * (1 - 0.5 * days_ago / days) * weekday_share
        attempted = max(sum(placed), round(limits.per_day * share * minutes / MINUTES_PER_DAY))
        admitted = min(attempted, limits.per_day)
        by_day = min(attempted - admitted, rng.randint(10, 60))  # Clients stop when they are rejected.
        bursts = rng.randint(0, 3) if has_bursts and admitted > 6 * limits.per_minute else 0
        excesses, by_ban = [rng.randint(1, 12) for _ in range(bursts)], 0
        reasons = [Rejection.Reason.DAY] * by_day + [Rejection.Reason.MINUTE] * sum(excesses)
        if ban_level and not days_ago:
            excesses, by_ban = [get_rejections_to_ban(limits.per_minute)], rng.randint(5, 20)
            admitted = max(admitted, limits.per_minute)
            yield from generate_ban_rows(rng, now, keys[0], ban_level, by_ban)
        rejected = by_day + by_ban + sum(excesses)
        if days_ago < settings.REJECTION_RETENTION_DAYS:  # Log every rejection, all for the first key.
            for number, reason in enumerate(reasons, rejected - len(reasons)):
                at = day_start + (day_end - day_start) * rng.uniform(0.8, 1)
                yield build_rejection(rng, keys[0], at, reason, number, day_used=admitted)
        active_keys = [
            key
            for key in keys
            if key.created_at.date() <= day <= (key.revoked_at or key.expires_at or now).date()
        ]
        per_key, remainder = divmod(admitted, len(active_keys))
        yield DailyUsage(key=active_keys[0], day=day, admitted=per_key + remainder, rejected=rejected)
        for key in active_keys[1:]:
            yield DailyUsage(key=key, day=day, admitted=per_key)
        calls = 0  # Of a deprecated operation.
        if days_ago < RECENT_DAYS:
            histogram = build_minute_histogram(limits.per_minute, admitted + by_day, excesses, minutes)
            yield MinuteHistogram(account=account, day=day, minutes=histogram)
            if index % 5 == 1 and (calls := round(admitted * rng.uniform(0, 0.02))):
                values = {
                    "operation": "getPet",
                    "admitted": calls,
                    "last_call_at": day_end - timedelta(seconds=1),
                }
                yield DeprecatedUse(account=account, day=day, **values)
        if days_ago < OPERATION_USAGE_DAYS:
            hours = 24 if days_ago else now.hour + 1
            counts = count_reads(admitted - calls - sum(placed), rejected)
            by_hour = {key: spread(count, hours) for key, count in counts.items()}
            by_hour["GET /v1/pets/{petId}", 200] = spread(calls, hours)
            by_hour["POST /v1/store/orders", 201] = placed
            yield from build_operation_rows(account, first_hour, by_hour, per_hour=days_ago < 2)
    yield UsageGeneration(account=account)
    yield QuotaUsage(account=account, day=(today - EPOCH).days, day_used=admitted)


def count_reads(admitted: int, rejected: int) -> Counter[tuple[str, int]]:
    """Count requests by operation and status, as `build_rejection` chooses the route."""
    counts: Counter[tuple[str, int]] = Counter()
    for status, count in ((200, admitted), (429, rejected)):
        for route, share in zip(ROUTES, spread(count, len(ROUTES)), strict=True):
            counts[f"GET {route}", status] += share
    return counts


def spread(count: int, parts: int) -> list[int]:
    return [count // parts + (part < count % parts) for part in range(parts)]


def build_operation_rows(
    account: Account, first_hour: int, by_hour: dict[tuple[str, int], list[int]], *, per_hour: bool
) -> Iterator[OperationUsage]:
    """Yield the requests of a day by operation and status, with `per_hour` also those of its hours."""
    for (operation, status), requests in by_hour.items():
        rows = [(OperationUsage.DAY, first_hour, sum(requests))]
        if per_hour:
            rows += [(OperationUsage.HOUR, first_hour + hour, count) for hour, count in enumerate(requests)]
        values = {"account": account, "operation": operation, "status": status}
        for length, start, count in rows:
            if count:
                yield OperationUsage(hours=length, start=start, requests=count, **values)


def build_minute_histogram(
    per_minute: int, within_limit: int, excesses: list[int], minutes: int
) -> dict[int, int]:
    """Map requests per minute to the number of such minutes. An excess is of one minute over the limit."""
    quotient, remainder = divmod(within_limit - len(excesses) * per_minute, max(1, minutes - len(excesses)))
    histogram = Counter({quotient: minutes - len(excesses) - remainder, quotient + 1: remainder})
    histogram.update(per_minute + excess for excess in excesses)
    return {requests: count for requests, count in histogram.items() if requests and count}


def build_rejection(
    rng: Random, key: ApiKey, at: datetime, reason: str, number: int, **values: Any
) -> Rejection:
    minute_used = key.account.limits.per_minute if reason == Rejection.Reason.MINUTE else 0
    return Rejection(
        request_id=f"{rng.getrandbits(128):032x}",
        rejected_at=at,
        account=key.account,
        key=key,
        reason=reason,
        address=f"203.0.113.{key.pk % 254 + 1}",  # RFC 5737.
        method="GET",
        route=ROUTES[number % len(ROUTES)],
        minute_limit=key.account.limits.per_minute,
        minute_ends_at=at + timedelta(seconds=rng.uniform(1, 50)),
        day_limit=key.account.limits.per_day,
        day_ends_at=datetime.combine(at.date() + timedelta(days=1), time(), UTC),
        **{"minute_used": minute_used, "day_used": minute_used} | values,
    )
