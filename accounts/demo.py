"""A made-up history for demonstrations: accounts, keys, and what they sent on each day.

The same choices give the same history. Nobody has the text of its keys: their digests are random.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.db.models import Model

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
SECOND_KEYS = ("in use", "revoked", "rotated", 3, 20, -9, "none")  # Or how many days from now they end.
BANNED_AGO = 12 * MINUTE
WEEKDAYS = (1.0, 1.05, 1.02, 1.0, 0.9, 0.5, 0.4)  # From Monday on.
HOURS = (1, 1, 1, 1, 1, 2, 3, 5, 7, 8, 8, 7, 6, 7, 8, 8, 7, 6, 4, 3, 2, 2, 1, 1)  # Shares, in UTC.
RECENT_DAYS = 30  # For which there are loads and deprecated calls.
REFUSALS_OF_A_DAY = 5  # At most, for each account.

# Admitted and refused requests by day, the earliest first.
Sent = dict[date, tuple[int, int]]


def add_history(choose: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Add accounts with so many days of history, in a transaction; return them, the oldest first."""
    accounts = add_accounts(choose, now, days, count)
    keys_of = add_keys(choose, now, accounts)
    rows: dict[type[Model], list[Any]] = defaultdict(list)
    for number, account in enumerate(accounts):
        sent = demand(choose, account, now, days)
        for row in usage(choose, now, keys_of[account.pk], sent, deprecated=number % 5 == 1):
            rows[type(row)].append(row)
    for level, account in enumerate(accounts[2::4][:3], 1):
        rows[Refusal] += ban(choose, now, keys_of[account.pk][0], level)
    rows[Refusal] = sorted(rows[Refusal], key=lambda row: row.at)[-settings.REFUSALS_KEPT_MOST :]
    for model, some in rows.items():
        model._default_manager.bulk_create(some, BATCH)
    return accounts


def public_id(choose: Random, length: int) -> str:
    return "".join(choose.choices(BASE62, k=length))


def add_accounts(choose: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Add accounts on all plans; the first third is as old as the history."""
    plans = {plan.code: plan for plan in Plan.objects.all()}
    accounts, first = [], Account.objects.count()
    for number in range(count):
        turn, place = divmod(first + number, len(PLACES))
        again, kind = divmod(turn, len(KINDS))
        name = f"{PLACES[place]} {KINDS[kind]}{f' {again + 1}' if again else ''}"
        plan = plans[PLANS[number % 8]]
        account = Account(name=name, public_id=public_id(choose, ACCOUNT_ID_LENGTH), plan=plan)
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
    """Add a key for each account and a second one for most, in every state; and what happened to them."""
    keys, successors = [], []
    for number, account in enumerate(accounts):
        keys.append(new_key(choose, now, account, "Production"))
        second = new_key(choose, now, account, choose.choice(("Website", "Till", "Reports")))
        match SECOND_KEYS[number % len(SECOND_KEYS)]:
            case "none":
                continue
            case "revoked":
                second.revoked_at = now - (now - second.created_at) * choose.uniform(0.1, 0.6)
                second.revoked_reason = "Found in a public repository."
            case "rotated":
                second.expires_at = now + timedelta(hours=10)
                successor = new_key(choose, now, account, second.name)
                successor.created_at, successor.rotated_from = second.expires_at - ROTATION_OVERLAP, second
                successors.append(successor)
            case int(days):
                end = now + timedelta(days=days)
                second.expires_at = max(end, second.created_at + timedelta(hours=1))
        keys.append(second)
    for key in keys:
        if (end_at := key.revoked_at or key.expires_at) is not None:
            key.last_used_at = min(now, end_at) - timedelta(minutes=3)
    ApiKey.objects.bulk_create(keys, BATCH)
    ApiKey.objects.bulk_create(successors, BATCH)
    done = [entry for key in keys + successors for entry in history_of(key, choose.choice(STAFF))]
    AuditEntry.objects.bulk_create(sorted(done, key=lambda entry: entry.at), BATCH)
    found: dict[int, list[ApiKey]] = defaultdict(list)
    for key in keys:
        found[key.account_id].append(key)
    return found


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


def history_of(key: ApiKey, by: str) -> Iterator[AuditEntry]:
    """Yield what staff did with a key."""
    yield entry(key, Action.ISSUED, key.created_at, by)
    if key.revoked_at is not None:
        yield entry(key, Action.REVOKED, key.revoked_at, by, key.revoked_reason)
    if key.rotated_from is not None:
        yield entry(key.rotated_from, Action.ROTATED, key.created_at, by, f"Replaced by {key.public_id}.")


def entry(key: ApiKey, action: Action, at: datetime, by: str, reason: str = "") -> AuditEntry:
    """Return an entry of the audit trail that is not stored yet."""
    row = {"model": key._meta.label_lower, "object_id": str(key.pk), "object_text": str(key)}
    return AuditEntry(**row, action=action, at=at, actor_name=by, reason=reason, address=str(NOWHERE))


def ban(choose: Random, now: datetime, key: ApiKey, level: int) -> Iterator[Refusal]:
    """Ban a key, as the service does when a client ignores 429; yield what is refused since."""
    began = microseconds(now) - BANNED_AGO
    until = began + BAN_LENGTHS[level]
    KeyStanding.objects.bulk_create(
        [KeyStanding(key=key, banned_at=began, banned_until=until, ban_level=level + 1)]
    )
    reason = Ban(key.pk, began, until, level + 1, 312).reason
    entry(key, Action.BANNED, moment(began), "the service", reason).save()
    for _ in range(REFUSALS_OF_A_DAY):
        at = moment(began + round(BANNED_AGO * choose.random()))
        yield refusal(choose, key, at, Refusal.Rule.BAN, ban_ends_at=moment(until))


def demand(choose: Random, account: Account, now: datetime, days: int) -> Sent:
    """Return what was sent: growing, less at weekends; today until now."""
    sent, per_day = {}, account.limits.per_day
    level = choose.betavariate(1.6, 3.2) * 1.4  # Share of the daily limit that is wanted today.
    bursts = choose.random() < 0.3
    so_far = (sum(HOURS[: now.hour]) + HOURS[now.hour] * now.minute / 60) / sum(HOURS)
    for back in range(min(days, (now - account.created_at).days) - 1, -1, -1):
        day = now.date() - timedelta(days=back)
        share = level * (1 - 0.5 * back / days) * WEEKDAYS[day.weekday()] * choose.uniform(0.85, 1.15)
        wanted = round(per_day * share * (so_far if back == 0 else 1))
        admitted = min(wanted, per_day)
        refused = wanted - admitted + (admitted // choose.randint(30, 300) if bursts else 0)
        sent[day] = admitted, refused
    return sent


def usage(
    choose: Random, now: datetime, keys: list[ApiKey], sent: Sent, *, deprecated: bool
) -> Iterator[Model]:
    """Yield all that the service would have written of an account's requests."""
    account, today = keys[0].account, now.date()
    unused = {"minute_ends": 0, "minute_used": 0, "seen_at": 0, "admitted": True}
    yield QuotaCounter(account=account, day=(today - EPOCH).days, day_used=sent[today][0], **unused)
    for day, (admitted, refused) in sent.items():
        ends = [key.revoked_at or key.expires_at or now for key in keys]
        working = [key for key, end in zip(keys, ends, strict=True) if day <= end.date()]
        for number, key in enumerate(working):
            requests = admitted // len(working) + (admitted % len(working) if number == 0 else 0)
            yield DailyUsage(key=key, day=day, requests=requests, refusals=0 if number else refused)
        if today - day < timedelta(days=settings.REFUSALS_KEPT_DAYS):
            begins = datetime.combine(day, time(), UTC)
            length = min(timedelta(days=1), now - begins)
            full = admitted >= account.limits.per_day
            for _ in range(min(refused, REFUSALS_OF_A_DAY)):
                at = begins + length * choose.uniform(0.8, 1)
                rule = Refusal.Rule.DAY if full else Refusal.Rule.MINUTE
                used = max(admitted, account.limits.per_minute)
                yield refusal(choose, keys[0], at, rule, day_used=used)
        if today - day < timedelta(days=RECENT_DAYS):
            minutes = loads(account.limits.per_minute, admitted, refused)
            yield AccountDayLoad(account=account, day=day, minutes=minutes)
            called = round(admitted * choose.uniform(0, 0.02))
            if deprecated and called:
                last = now if day == today else datetime.combine(day, time(17), UTC)
                use = {"operation": "getPet", "requests": called, "last_call_at": last}
                yield DeprecatedUse(account=account, day=day, **use)


def loads(per_minute: int, admitted: int, refused: int) -> dict[int, int]:
    """Return in how many minutes of a day how many requests came."""
    minutes: Counter[int] = Counter()
    # The bursts, in which the minute's limit refuses some, are part of what was sent.
    bursts = min(10, refused, admitted // (2 * per_minute))
    calm = admitted - bursts * per_minute if bursts else admitted + refused
    for share in HOURS:
        each, rest = divmod(round(calm * share / sum(HOURS)), 60)
        minutes[each] += 60 - rest
        minutes[each + 1] += rest
    if bursts:
        minutes[per_minute + refused // bursts] += bursts
    return {requests: times for requests, times in sorted(minutes.items()) if requests and times}


def refusal(choose: Random, key: ApiKey, at: datetime, rule: str, **facts: Any) -> Refusal:
    """Return a refusal by a rule, as the windows and the ban were then."""
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
        **{"minute_used": minute_used, "day_used": minute_used} | facts,
    )
