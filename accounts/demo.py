"""Generates a demo history: accounts, keys that can't authenticate, their usage, rejections, and a ban."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.db.models import Model

from accounts import models
from accounts.actions import Action
from accounts.keys import key_format
from accounts.models import EPOCH, Account, ApiKey, OperationUsage, Plan, Rejection
from accounts.models.api_keys import SERVICE
from accounts.quota.bans import get_rejections_to_ban
from accounts.quota.limits import to_microseconds
from accounts.usage.retention import OPERATION_USAGE_DAYS
from petstore.audit.models import AuditEntry

BATCH_SIZE = 2_000
PLACES = "Amber Brook Cedar Coast Elm Harbour Hill Island Juniper Lake Meadow Orchard River Station".split()
BUSINESSES = "Pets|Rescue|Animal Clinic|Pet Supplies|Adoption|Kennels".split("|")
DAYS_UNTIL_EXPIRY = (None, 3, 20, -9)  # Of the accounts' second keys, in turn.
SHARES = (0.1, 0.2, 0.3, 0.4, 0.6, 1.5)  # Of the daily quota that accounts use.
LIST, ORDER = "GET /v1/pets", "POST /v1/store/orders"

Orders = Counter[tuple[int, date]]  # Placed orders, by account ID and day.


def add_history(
    rng: Random, now: datetime, days: int, count: int, add_orders: Callable[[list[Account]], Orders]
) -> Orders:
    """Add `count` accounts with up to `days` of history, and their orders. Call it in a transaction."""
    accounts = add_accounts(rng, now, days, count)
    keys = add_keys(now, accounts)
    orders = add_orders(accounts)
    rows: dict[type[Model], list[Any]] = defaultdict(list)
    for index, key in enumerate(keys):
        ban = ban_key(key, now) if index == 1 else []
        for row in generate_usage(rng, now, days, key, orders=orders, ban=ban):
            rows[type(row)].append(row)
    rows[Rejection].sort(key=lambda rejection: rejection.rejected_at)
    for model, instances in rows.items():
        model._default_manager.bulk_create(instances, BATCH_SIZE)
    return orders


def add_accounts(rng: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Create accounts. The first third date back to the start of the history."""
    plans, first = list(Plan.objects.exclude(per_day=None)), Account.objects.count()
    accounts = []
    names = [f"{place} {business}" for business in BUSINESSES for place in PLACES]
    for index in range(count):
        repetition, name_index = divmod(first + index, len(names))
        name = names[name_index] + (f" {repetition + 1}" if repetition else "")
        accounts.append(Account(name=name, plan=plans[index % len(plans)]))
    Account.objects.bulk_create(accounts, BATCH_SIZE)
    for index, account in enumerate(accounts):  # After bulk_create(), which sets the times to now.
        age = days if index < count / 3 else rng.randint(1, days)
        account.created_at = now - timedelta(days=age, minutes=5)
    Account.objects.bulk_update(accounts, ["created_at"], BATCH_SIZE)
    return accounts


def add_keys(now: datetime, accounts: list[Account]) -> list[ApiKey]:
    """Add a key in use and an unused one for each account. Return those in use."""
    used = [build_key(account, "Production", last_used_at=now) for account in accounts]
    unused = [build_key(account, "Website") for account in accounts]
    for index, key in enumerate(unused):
        if days := DAYS_UNTIL_EXPIRY[index % len(DAYS_UNTIL_EXPIRY)]:
            key.expires_at = max(now + timedelta(days=days), key.created_at + timedelta(hours=1))
    ApiKey.objects.bulk_create([*used, *unused], BATCH_SIZE)
    AuditEntry.objects.bulk_create(map(build_audit_entry, [*used, *unused]), BATCH_SIZE)
    return used


def build_key(account: Account, name: str, **values: Any) -> ApiKey:
    values["public_id"] = key_format.generate(models.get_key_mode(), account.public_id).public_id
    values["digest"], values["pepper_number"] = secrets.token_hex(32), models.get_signing_pepper_number()
    created_at = account.created_at + timedelta(minutes=2)
    return ApiKey(account=account, name=name, mode=models.get_key_mode(), created_at=created_at, **values)


def build_audit_entry(key: ApiKey) -> AuditEntry:
    by = {"actor_name": SERVICE.name, "address": SERVICE.address}
    row = {"model": key._meta.label_lower, "object_id": str(key.pk), "object_text": str(key)}
    return AuditEntry(action=Action.ISSUED, at=key.created_at, **by, **row)


def ban_key(key: ApiKey, now: datetime) -> list[Rejection]:
    """Ban a key that was banned before, for hours; return the rejections that led to it."""
    at, rejections = to_microseconds(now), get_rejections_to_ban(key.account.limits.per_minute)
    models.RateLimitState.objects.create(key=key, banned_until=at, ban_level=3)
    key.ban(at, at, rejections)
    return [build_rejection(key, now, Rejection.Reason.MINUTE) for _ in range(rejections)]


def generate_usage(
    rng: Random, now: datetime, days: int, key: ApiKey, *, orders: Orders, ban: list[Rejection]
) -> Iterator[Model]:
    """Yield the usage of an account, which grows to a share of its daily quota."""
    account, limits, admitted = key.account, key.account.limits, 0
    share = rng.choice(SHARES)
    for days_ago in range(min(days, (now - account.created_at).days) - 1, -1, -1):
        start = datetime.combine(now.date() - timedelta(days=days_ago), time(), UTC)
        duration = min(now - start, timedelta(days=1))
        growth = (1 - 0.5 * days_ago / days) * rng.uniform(0.85, 1.15)
        attempted = round(limits.per_day * share * growth * (duration / timedelta(days=1)))
        placed = orders[account.pk, start.date()]
        admitted = min(max(attempted, placed, limits.per_minute), limits.per_day)
        by_day = min(max(0, attempted - admitted), 40)  # Clients stop when they are rejected.
        log = [build_rejection(key, start + duration * rng.uniform(0.8, 1)) for _ in range(by_day)]
        log += [] if days_ago else ban
        yield models.DailyUsage(key=key, day=start, admitted=admitted, rejected=len(log))
        if days_ago < settings.REJECTION_RETENTION_DAYS:
            yield from log
        if days_ago < OPERATION_USAGE_DAYS:
            counts = Counter({(LIST, 200): admitted - placed, (ORDER, 201): placed, (LIST, 429): len(log)})
            hours = (now.hour + 1, 24)[days_ago] if days_ago < 2 else 0
            yield from generate_operations(account, 24 * (start.date() - EPOCH).days, hours, counts)
    yield models.UsageGeneration(account=account)
    yield models.QuotaUsage(account=account, day=(now.date() - EPOCH).days, day_used=admitted)


def generate_operations(
    account: Account, first: int, hours: int, counts: Counter[tuple[str, int]]
) -> Iterator[OperationUsage]:
    """Yield the requests of a day by operation and status, also spread over its hours."""
    for (operation, status), total in (+counts).items():  # Without zeros.
        values = {"account": account, "operation": operation, "status": status}
        yield OperationUsage(hours=OperationUsage.DAY, start=first, requests=total, **values)
        for hour in range(hours):
            requests = total // hours + (hour < total % hours)
            yield OperationUsage(hours=OperationUsage.HOUR, start=first + hour, requests=requests, **values)


def build_rejection(key: ApiKey, at: datetime, reason: str = Rejection.Reason.DAY) -> Rejection:
    limits, is_daily = key.account.limits, reason == Rejection.Reason.DAY
    return Rejection(
        account=key.account, key=key, rejected_at=at, reason=reason, request_id=secrets.token_hex(16),
        method="GET", route="/v1/pets", address="203.0.113.7",  # RFC 5737.
        minute_limit=limits.per_minute, minute_used=0 if is_daily else limits.per_minute,
        minute_ends_at=at + timedelta(seconds=30),
        day_limit=limits.per_day, day_used=limits.per_day if is_daily else limits.per_minute,
        day_ends_at=datetime.combine(at.date() + timedelta(days=1), time(), UTC),
    )  # fmt: skip
