"""The quota store in the database, PostgreSQL or SQLite. limits.py lists the steps of the quota rule."""

import time
from pathlib import Path

from django.conf import settings

from accounts.events.warnings import THRESHOLDS
from accounts.keys import key_format, networks
from accounts.keys.identity import KeyRecord
from accounts.keys.key_format import ParsedKey
from accounts.models import Account, QuotaCounter
from accounts.quota import bans, key_record, limits
from accounts.quota.bans import Ban, get_rejections_to_ban
from accounts.quota.key_record import KeyRejectionReason
from accounts.quota.limits import DAY, MINUTE, NIGHT_SKEW, SKEW, Counters, Limits, RateLimitDecision, Window
from accounts.quota.store_protocol import QuotaResult
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.event_loop.compiled_writes import RawStatement

LEVELS = " ".join(f"WHEN {level} THEN {length}" for level, length in enumerate(bans.BAN_LENGTHS))
SQL_CONSTANTS = vars(limits) | vars(bans) | {"LEVELS": LEVELS, "MAX_LEVEL": len(bans.BAN_LENGTHS) - 1}


def load_statement(name: str) -> RawStatement:
    """Load a statement without the comment above it, and fill in the constants of the quota rule."""
    sql = Path(__file__).with_name(name).read_text().partition("\n\n")[2]
    return RawStatement(sql.format_map(SQL_CONSTANTS))


COUNT_REQUEST = load_statement("count_request.sql")
COUNT_REJECTION = load_statement("count_rejection.sql")
COUNT_PEEK = load_statement("count_peek.sql")
NO_REQUESTS = QuotaCounter(minute_ends_at=0, minute_used=0, day=0, day_used=0, last_request_at=0)


class DatabaseQuotaStore:
    """Counts windows in QuotaCounter, and strikes, bans and peeks in KeyStanding."""

    def admit(
        self, key: ParsedKey, address: Address, now: int | None = None, *, may_write: bool = False
    ) -> QuotaResult:
        """See QuotaStore. Usually takes two queries, or three for a 429. Ignores `may_write`."""
        now = time.time_ns() // 1000 if now is None else now
        record = key_record.read(key.public_id)
        if rejection := check_key(key, record, address, now):
            return QuotaResult(rejection=rejection)
        decision = count_request(record, now)
        if not decision.admitted and not decision.banned:
            decision = count_rejection(record, decision)
        write_behind.recorder.count(record.caller, decision)
        write_behind.recorder.rehash(key, record.id, record.pepper_number)
        return QuotaResult(caller=record.caller, decision=decision)

    def peek(self, key: ParsedKey, address: Address, now: int | None = None) -> QuotaResult:
        """See QuotaStore. Takes two queries for a valid key."""
        now = time.time_ns() // 1000 if now is None else now
        record = key_record.read(key.public_id)
        if rejection := check_key(key, record, address, now):
            return QuotaResult(rejection=rejection)
        peeks, peeks_end = COUNT_PEEK.execute(key=record.id, now=now)
        windows, now = compute_windows(record.limits, record, now)
        decision = limits.decide_peek(windows, now, record.banned_until, peeks=peeks, peeks_end=peeks_end)
        caller = record.caller._replace(record=record)
        write_behind.recorder.record_key_use(caller, now)
        write_behind.recorder.rehash(key, record.id, record.pepper_number)
        return QuotaResult(caller=caller, decision=decision)


def check_key(key: ParsedKey, record: KeyRecord, address: Address, now: int) -> KeyRejectionReason | None:
    # Always compute one digest, so that the response time does not reveal whether the key exists.
    pepper = settings.API_KEY_PEPPERS.get(record.pepper_number, b"")
    if not (key_format.matches_digest(key, pepper, record.digest) and pepper):
        return KeyRejectionReason.UNKNOWN
    if record.revoked:
        return KeyRejectionReason.REVOKED
    if record.expires_at and record.expires_at <= now:
        return KeyRejectionReason.EXPIRED
    if not networks.is_allowed(address, record.networks):
        return KeyRejectionReason.NETWORK_NOT_ALLOWED
    return KeyRejectionReason.SUSPENDED if record.suspended else None


def count_request(record: KeyRecord, now: int) -> RateLimitDecision:
    """Take steps 1 to 5. Stores warnings before counting, since the process may die in between (D41)."""
    decision = try_to_count(record, now)
    while is_warning_due(decision):
        day = decision.windows[-1]
        usage = day.used + 1
        write_behind.recorder.store_warnings(record.account_id, decision.day, day.limit, usage)
        decision = try_to_count(record, now, warned_usage=usage)
    return decision


def is_warning_due(decision: RateLimitDecision) -> bool:
    """Return whether only the missing warning prevented the request from being counted."""
    has_quota = all(window.remaining for window in decision.windows)
    return has_quota and not decision.admitted and not decision.banned


def try_to_count(record: KeyRecord, now: int, warned_usage: int = 0) -> RateLimitDecision:
    """Take steps 1 to 5, but do not count a request that reaches a threshold above `warned_usage`."""
    banned = record.banned_until > now
    thresholds = [-(-record.limits.per_day * threshold // 100) for threshold in THRESHOLDS]
    threshold_80, threshold_100 = (threshold if threshold > warned_usage else 0 for threshold in thresholds)
    *counters, adjusted_now, admitted = COUNT_REQUEST.execute(
        account=record.account_id,
        per_minute=record.limits.per_minute,
        per_day=record.limits.per_day,
        now=now,
        initial_count=0 if banned or 1 in {threshold_80, threshold_100} else 1,
        threshold_80=threshold_80,
        threshold_100=threshold_100,
    )
    windows = limits.build_windows(record.limits, Counters(*counters), adjusted_now)
    banned_until = record.banned_until if banned else 0
    return RateLimitDecision(bool(admitted), windows, adjusted_now, banned_until)


def compute_windows(
    account_limits: Limits, record: KeyRecord | QuotaCounter, now: int
) -> tuple[tuple[Window, Window], int]:
    """Take steps 1 and 2 like COUNT_REQUEST; return the windows and the adjusted time."""
    if record.last_request_at - SKEW <= now <= record.last_request_at:
        now = record.last_request_at
    day_start = record.day * DAY
    today = record.day if day_start - NIGHT_SKEW <= now <= day_start else now // DAY
    day_used = 0 if today > record.day else record.day_used
    counters = Counters(min(record.minute_ends_at, now + MINUTE), record.minute_used, today, day_used)
    return limits.build_windows(account_limits, counters, now), now


def count_rejection(record: KeyRecord, decision: RateLimitDecision) -> RateLimitDecision:
    """Take step 6; return the decision with the ban that the rejection may have triggered."""
    strikes, rejections, banned_until, level = COUNT_REJECTION.execute(
        key=record.id,
        now=decision.now,
        rejecting_until=decision.reported_window.ends_at,
        rejections_to_ban=get_rejections_to_ban(record.limits.per_minute),
    )
    if strikes and banned_until > decision.now:
        write_behind.recorder.record_ban(Ban(record.id, decision.now, banned_until, level, rejections))
    return RateLimitDecision(False, decision.windows, decision.now, banned_until)


def read_windows(account: Account, now: int | None = None) -> tuple[Window, Window]:
    """Read the windows that a peek would read, without a key. Takes one query."""
    counter = QuotaCounter.objects.filter(account=account).first() or NO_REQUESTS
    now = time.time_ns() // 1000 if now is None else now
    return compute_windows(account.limits, counter, now)[0]
