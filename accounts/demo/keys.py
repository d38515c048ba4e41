"""Invented keys: in use, ending soon, ended, revoked, rotated, banned."""

import secrets
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import cycle
from random import Random

from accounts import scopes
from accounts.bans import BAN_LENGTHS
from accounts.demo.customers import BATCH, Customer, public_id
from accounts.key_text import ACCOUNT_ID_LENGTH, PUBLIC_ID_LENGTH
from accounts.limits import MINUTE, moment
from accounts.models import ROTATION_OVERLAP, ApiKey, KeyStanding, key_mode, signing_pepper
from accounts.quota.key_record import microseconds
from petstore.api.client_ip import NOWHERE
from petstore.backoffice.models import AuditEntry

STAFF = ("maria", "tom", "ingrid")
OTHER_NAMES = ("Website", "Till", "Warehouse scanner", "Reports", "Mobile app")
REASONS = (
    "Found in a public repository.",
    "The employee left.",
    "The shop was closed.",
    "Not needed any more.",
)
# What becomes of second keys; None is nothing, a number the days until they end.
FATES = (None, 3.0, "revoked", "rotated", 20.0, None, -9.0, 6.0, "revoked", 28.0)
BANNED = 3  # Keys that are banned now,
BEGAN_AGO = 12 * MINUTE  # and since when.
LEFT = timedelta(hours=10)  # Of a rotated key's time.


def add(choose: Random, now: datetime, cast: list[Customer]) -> None:
    """Add each customer's keys, with their events, and bans of a few."""
    fates = cycle(FATES)
    rotated: list[tuple[Customer, ApiKey]] = []
    for number, customer in enumerate(cast):
        customer.keys.append(new(choose, now, customer, "Production"))
        if number % 3 != 1:
            second = new(choose, now, customer, choose.choice(OTHER_NAMES))
            fate = next(fates)
            meet(choose, now, second, fate)
            customer.keys.append(second)
            if fate == "rotated":
                rotated.append((customer, second))
        if number % 4 == 0:
            narrow = new(choose, now, customer, "Read only")
            narrow.scopes = scopes.stored_form([scopes.PETS_READ, scopes.ORDERS_READ])
            customer.keys.append(narrow)
    ApiKey.objects.bulk_create([key for customer in cast for key in customer.keys], BATCH)
    for customer, old in rotated:
        successor = new(choose, now, customer, old.name)
        successor.created_at, successor.rotated_from = now - ROTATION_OVERLAP + LEFT, old
        customer.keys.append(successor)
    ApiKey.objects.bulk_create([customer.keys[-1] for customer, _ in rotated], BATCH)
    events = [event for customer in cast for key in customer.keys for event in life(choose, key)]
    events += bans(choose, now, cast)
    AuditEntry.objects.bulk_create(sorted(events, key=lambda event: event.at), BATCH)


def life(choose: Random, key: ApiKey) -> Iterator[AuditEntry]:
    """Yield what happened to a key, without bans."""
    yield event(key, AuditEntry.Action.ISSUED, key.created_at, choose.choice(STAFF))
    if key.revoked_at is not None:
        yield event(
            key, AuditEntry.Action.REVOKED, key.revoked_at, choose.choice(STAFF), key.revoked_reason
        )
    if key.rotated_from is not None:
        reason = f"Replaced by {key.public_id}."
        yield event(
            key.rotated_from, AuditEntry.Action.ROTATED, key.created_at, choose.choice(STAFF), reason
        )


def new(choose: Random, now: datetime, customer: Customer, name: str) -> ApiKey:
    """Return a key, as old as its account or younger. Its digest is random: no text has it."""
    first = customer.account.created_at
    old = timedelta() if name == "Production" else (now - first) * choose.uniform(0, 0.6)
    rest = public_id(choose, PUBLIC_ID_LENGTH - ACCOUNT_ID_LENGTH)
    return ApiKey(
        account=customer.account,
        public_id=customer.account.public_id + rest,
        mode=key_mode(),
        name=name,
        digest=secrets.token_hex(32),
        pepper_number=signing_pepper(),
        created_at=first + timedelta(minutes=2) + old,
        last_used_at=now - timedelta(minutes=choose.uniform(1, 600)),
    )


def meet(choose: Random, now: datetime, key: ApiKey, fate: float | str | None) -> None:
    """Give a key its end: revoked, rotated, or after so many days; None for no end."""
    if fate == "revoked":
        key.revoked_at = key.created_at + (now - key.created_at) * choose.uniform(0.4, 0.95)
        key.revoked_reason = choose.choice(REASONS)
    elif fate == "rotated":
        key.expires_at = now + LEFT
    elif isinstance(fate, float):
        key.expires_at = max(now + timedelta(days=fate), key.created_at + timedelta(hours=1))
    end = ended_at(key)
    if end is not None and key.last_used_at is not None:
        key.last_used_at = min(key.last_used_at, end - timedelta(minutes=3))


def ended_at(key: ApiKey) -> datetime | None:
    """Return when the key stops working, or stopped; None for never."""
    return key.revoked_at or key.expires_at


def worked_on(key: ApiKey, day: date) -> bool:
    """Tell whether the key worked at some time of the day."""
    end = ended_at(key)
    return key.created_at.date() <= day and (end is None or day <= end.date())


def event(key: ApiKey, action: AuditEntry.Action, at: datetime, by: str, reason: str = "") -> AuditEntry:
    """Return an entry that is not stored yet."""
    return AuditEntry(
        model=key._meta.label_lower, object_id=str(key.pk), object_text=str(key), action=action, at=at,
        actor_name=by, reason=reason, address=str(NOWHERE),
    )  # fmt: skip


def bans(choose: Random, now: datetime, cast: list[Customer]) -> Iterator[AuditEntry]:
    """Ban a key of the first who burst, now; others had bans, some of which staff lifted."""
    for number, customer in enumerate(one for one in cast if one.bursts):
        key = customer.keys[0]
        earlier = now - (now - key.created_at) * choose.uniform(0.1, 0.5)
        yield ban(key, earlier, BAN_LENGTHS[0] // MINUTE)
        if number % 2:
            lifted = event(
                key, AuditEntry.Action.UNBANNED, earlier + timedelta(minutes=2), choose.choice(STAFF)
            )
            lifted.reason = "They have mended their client."
            yield lifted
        if number < BANNED:
            level = number + 2
            began = microseconds(now) - BEGAN_AGO
            KeyStanding.objects.create(
                key=key,
                banned_at=began,
                banned_until=began + BAN_LENGTHS[level],
                ban_level=min(level + 1, len(BAN_LENGTHS) - 1),
            )
            yield ban(key, moment(began), BAN_LENGTHS[level] // MINUTE)


def ban(key: ApiKey, at: datetime, minutes: int) -> AuditEntry:
    """Return the event of a ban, in the service's words."""
    reason = f"30 requests before their Retry-After ran out. Banned for {minutes} minutes."
    return event(key, AuditEntry.Action.BANNED, at, "the service", reason)
