"""Generates a demo history: accounts, keys, and their daily usage.

The same random seed gives the same history. The keys' digests are random, so no text matches them.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.core.signing import BASE62_ALPHABET
from django.db.models import Model

from accounts.keys.key_format import ACCOUNT_ID_LENGTH, PUBLIC_ID_LENGTH
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
    get_key_mode,
    get_signing_pepper_number,
)
from accounts.quota.bans import BAN_LENGTHS, Ban
from accounts.quota.limits import MINUTE, to_datetime, to_microseconds
from petstore.api.client_ip import NO_ADDRESS
from petstore.backoffice.audit import Action
from petstore.backoffice.models import AuditEntry

BATCH = 2_000
PLACES = "Amber Brook Cedar Coast Elm Harbour Hill Island Juniper Lake Meadow Orchard River Station".split()
KINDS = "Pets|Rescue|Animal Clinic|Pet Supplies|Adoption|Kennels".split("|")
PLANS = [
    PlanCode.FREE, PlanCode.PRO, PlanCode.FREE, PlanCode.BUSINESS,
    PlanCode.FREE, PlanCode.PRO, PlanCode.FREE, PlanCode.ENTERPRISE,
]  # fmt: skip
SECOND_KEYS = ("in use", "revoked", "rotated", 3, 20, -9)  # Numbers: days until the key expires.
BANNED_AGO = 12 * MINUTE
WEEKDAYS = (1.0, 1.05, 1.02, 1.0, 0.9, 0.5, 0.4)  # Monday first.
MINUTES_A_DAY = 24 * 60
RECENT_DAYS = 30  # With minute counts and deprecated calls.
REJECTIONS_PER_DAY = 5  # Logged for an account, at most.


def add_history(choose: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Add `count` accounts with `days` of history, the oldest first. Call it in a transaction."""
    accounts = add_accounts(choose, now, days, count)
    keys = add_keys(choose, now, accounts)
    rows: dict[type[Model], list[Any]] = defaultdict(list)
    for number, account in enumerate(accounts):
        for row in usage(choose, now, days, keys[account.pk], deprecated=number % 5 == 1):
            rows[type(row)].append(row)
    for level, account in enumerate(accounts[2::4][:3], 1):
        for row in ban(choose, now, keys[account.pk][0], level):
            rows[type(row)].append(row)
    rows[Refusal] = sorted(rows[Refusal], key=lambda row: row.at)[-settings.REFUSALS_KEPT_MOST :]
    for model, some in rows.items():
        model._default_manager.bulk_create(some, BATCH)
    return accounts


def add_accounts(choose: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Add accounts, of which the first third is as old as the history."""
    plans = Plan.objects.in_bulk()
    accounts, first = [], Account.objects.count()
    for number in range(count):
        round_number, place = divmod(first + number, len(PLACES))
        again, kind = divmod(round_number, len(KINDS))
        name = f"{PLACES[place]} {KINDS[kind]}{f' {again + 1}' if again else ''}"
        public_id = "".join(choose.choices(BASE62_ALPHABET, k=ACCOUNT_ID_LENGTH))
        account = Account(name=name, public_id=public_id, plan=plans[PLANS[number % 8]])
        if account.plan_id == PlanCode.ENTERPRISE:
            account.per_minute, account.per_day = 3_000, 120_000
        accounts.append(account)
    Account.objects.bulk_create(accounts, BATCH)
    for number, account in enumerate(accounts):
        joined = days if number < count / 3 else choose.randint(1, days)
        account.created_at = now - timedelta(days=joined, minutes=5)
    Account.objects.bulk_update(accounts, ["created_at"], BATCH)
    return accounts


def add_keys(choose: Random, now: datetime, accounts: list[Account]) -> dict[int, list[ApiKey]]:
    """Add two keys for each account, in various states, and their audit trail."""
    keys: dict[int, list[ApiKey]] = {}
    replacements = []
    for number, account in enumerate(accounts):
        second = new_key(choose, now, account, "Website")
        match SECOND_KEYS[number % len(SECOND_KEYS)]:
            case "revoked":
                second.revoked_at = now - (now - second.created_at) * choose.uniform(0.1, 0.6)
                second.revoked_reason = "Found in a public repository."
            case "rotated":
                second.expires_at = now + timedelta(hours=10)
                replacement = new_key(choose, now, account, second.name)
                replacement.created_at, replacement.rotated_from = (
                    second.expires_at - ROTATION_OVERLAP,
                    second,
                )
                replacements.append(replacement)
            case int(days):
                end = now + timedelta(days=days)
                second.expires_at = max(end, second.created_at + timedelta(hours=1))
        second.last_used_at = min(now, second.revoked_at or second.expires_at or now) - timedelta(minutes=3)
        keys[account.pk] = [new_key(choose, now, account, "Production"), second]
    ApiKey.objects.bulk_create([key for both in keys.values() for key in both], BATCH)
    ApiKey.objects.bulk_create(replacements, BATCH)
    entries = []
    for key in [key for both in keys.values() for key in both] + replacements:
        entries.append(entry(key, Action.ISSUED, key.created_at))
        if key.revoked_at is not None:
            entries.append(entry(key, Action.REVOKED, key.revoked_at, key.revoked_reason))
        if key.rotated_from is not None:
            why = f"Replaced by {key.public_id}."
            entries.append(entry(key.rotated_from, Action.ROTATED, key.created_at, why))
    AuditEntry.objects.bulk_create(sorted(entries, key=lambda entry: entry.at), BATCH)
    return keys


def new_key(choose: Random, now: datetime, account: Account, name: str) -> ApiKey:
    own_id = "".join(choose.choices(BASE62_ALPHABET, k=PUBLIC_ID_LENGTH - ACCOUNT_ID_LENGTH))
    return ApiKey(
        account=account,
        public_id=account.public_id + own_id,
        mode=get_key_mode(),
        name=name,
        digest=secrets.token_hex(32),
        pepper_number=get_signing_pepper_number(),
        created_at=account.created_at + timedelta(minutes=2),
        last_used_at=now - timedelta(minutes=choose.uniform(1, 600)),
    )


def entry(key: ApiKey, action: Action, at: datetime, reason: str = "", by: str = "maria") -> AuditEntry:
    row = {"model": key._meta.label_lower, "object_id": str(key.pk), "object_text": str(key)}
    return AuditEntry(**row, action=action, at=at, actor_name=by, reason=reason, address=str(NO_ADDRESS))


def ban(choose: Random, now: datetime, key: ApiKey, level: int) -> Iterator[Model]:
    """Yield a ban of a client that ignored 429, and the rejections since."""
    started = to_microseconds(now) - BANNED_AGO
    until = started + BAN_LENGTHS[level]
    yield KeyStanding(key=key, banned_at=started, banned_until=until, ban_level=level + 1)
    reason = Ban(key.pk, started, until, level + 1, 312).reason
    yield entry(key, Action.BANNED, to_datetime(started), reason, by="the service")
    for _ in range(REJECTIONS_PER_DAY):
        at = to_datetime(started + round(BANNED_AGO * choose.random()))
        yield rejection(choose, key, at, Refusal.Rule.BAN, ban_ends_at=to_datetime(until))


def usage(
    choose: Random, now: datetime, days: int, keys: list[ApiKey], *, deprecated: bool
) -> Iterator[Model]:
    """Yield the records of an account's requests, which grow over time and drop on weekends."""
    account, today = keys[0].account, now.date()
    limits = account.limits
    level = choose.betavariate(1.6, 3.2) * 1.4  # Today's requests as a share of the daily limit.
    bursts = choose.random() < 0.3
    so_far = (now.hour * 60 + now.minute) / MINUTES_A_DAY
    admitted = 0
    for back in range(min(days, (now - account.created_at).days) - 1, -1, -1):
        day = today - timedelta(days=back)
        day_start = datetime.combine(day, time(), UTC)
        share = level * (1 - 0.5 * back / days) * WEEKDAYS[day.weekday()] * choose.uniform(0.85, 1.15)
        wanted = round(limits.per_day * share * (1 if back else so_far))
        admitted = min(wanted, limits.per_day)
        rejected = wanted - admitted + (admitted // choose.randint(30, 300) if bursts else 0)
        working = [key for key in keys if (key.revoked_at or key.expires_at or now).date() >= day]
        for number, key in enumerate(working):
            requests = admitted // len(working) + (admitted % len(working) if number == 0 else 0)
            yield DailyUsage(key=key, day=day, requests=requests, refusals=0 if number else rejected)
        rule = Refusal.Rule.DAY if admitted == limits.per_day else Refusal.Rule.MINUTE
        for _ in range(min(rejected, REJECTIONS_PER_DAY) if back < settings.REFUSALS_KEPT_DAYS else 0):
            at = day_start + min(timedelta(days=1), now - day_start) * choose.uniform(0.8, 1)
            yield rejection(choose, keys[0], at, rule, day_used=max(admitted, limits.per_minute))
        if back < RECENT_DAYS:
            minutes = minute_histogram(limits.per_minute, admitted, rejected)
            yield AccountDayLoad(account=account, day=day, minutes=minutes)
            if deprecated and (called := round(admitted * choose.uniform(0, 0.02))):
                last = day_start + timedelta(hours=17) if back else now
                use = {"operation": "getPet", "requests": called, "last_call_at": last}
                yield DeprecatedUse(account=account, day=day, **use)
    unused = {"minute_ends": 0, "minute_used": 0, "seen_at": 0, "admitted": True}
    yield QuotaCounter(account=account, day=(today - EPOCH).days, day_used=admitted, **unused)


def minute_histogram(per_minute: int, admitted: int, rejected: int) -> dict[int, int]:
    """Build a histogram of requests per minute: bursts, and the rest evenly."""
    bursts = min(10, rejected, admitted // (2 * per_minute))
    calm = admitted - bursts * per_minute if bursts else admitted + rejected
    each, rest = divmod(calm, MINUTES_A_DAY)
    minutes = {each: MINUTES_A_DAY - rest, each + 1: rest}
    if bursts:  # Partly rejected by the minute limit.
        minutes[per_minute + rejected // bursts] = bursts
    return {requests: times for requests, times in minutes.items() if requests and times}


def rejection(choose: Random, key: ApiKey, at: datetime, rule: str, **values: Any) -> Refusal:
    minute_used = key.account.limits.per_minute if rule == Refusal.Rule.MINUTE else 0
    return Refusal(
        request_id=f"{choose.getrandbits(128):032x}",
        at=at,
        account=key.account,
        key=key,
        rule=rule,
        method="GET",
        route=choose.choice(("/v1/pets", "/v1/pets/{petId}", "/v1/categories")),
        minute_limit=key.account.limits.per_minute,
        minute_ends_at=at + timedelta(seconds=choose.uniform(1, 50)),
        day_limit=key.account.limits.per_day,
        day_ends_at=datetime.combine(at.date() + timedelta(days=1), time(), UTC),
        **{"minute_used": minute_used, "day_used": minute_used} | values,
    )
