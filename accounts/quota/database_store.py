"""The quota store in the database, PostgreSQL or SQLite. limits.py lists the steps of the quota rule."""

import time

from django.conf import settings

from accounts.events.warnings import THRESHOLDS
from accounts.keys import key_format, networks
from accounts.keys.identity import KeyRecord
from accounts.keys.key_format import KeyText
from accounts.quota import key_record
from accounts.quota.admission import Admission
from accounts.quota.bans import (
    BAN_LENGTHS,
    FIRST_STRIKE_AFTER,
    STEP_BACK_AFTER,
    STRIKE_INTERVAL,
    STRIKE_WINDOW,
    STRIKES_TO_BAN,
    Ban,
    get_rejections_to_ban,
)
from accounts.quota.key_record import KeyRejection
from accounts.quota.limits import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Counters,
    RateLimitDecision,
    Window,
    build_windows,
    decide_peek,
)
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.event_loop.compiled_writes import RawStatement

# Tolerated clock differences between machines (steps 1 and 2). Without NIGHT_SKEW, machines whose clocks
# are on different sides of midnight would reset the day's count with every request.
SKEW = 5 * SECOND
NIGHT_SKEW = HOUR

# Steps 1, 2, 4 and 5 in one atomic statement: `clock` is step 1, `ends` and `counts` are step 2, `decision`
# is step 4, and the outermost SELECT is step 5. `initial_count` is 0 for a banned key, else 1.
COUNT_REQUEST = RawStatement(f"""
INSERT INTO accounts_quotacounter AS q
    (account_id, minute_ends, minute_used, day, day_used, day_here, seen_at, admitted)
VALUES (%(account)s, %(now)s + {MINUTE}, %(initial_count)s, %(now)s / {DAY}, %(initial_count)s,
    %(initial_count)s, %(now)s, %(initial_count)s = 1)
ON CONFLICT (account_id) DO UPDATE SET
    (minute_ends, minute_used, day, day_used, day_here, seen_at, admitted) = (
        SELECT
            CASE WHEN is_admitted AND now >= minute_end THEN now + {MINUTE} ELSE minute_end END,
            CASE WHEN is_admitted THEN minute_count + 1 ELSE minute_count END,
            today,
            CASE WHEN is_admitted THEN day_count + 1 ELSE day_count END,
            CASE WHEN is_admitted THEN day_count_here + 1 ELSE day_count_here END,
            now,
            is_admitted
        FROM (
            SELECT now, minute_end, minute_count, today, day_count, day_count_here,
                %(initial_count)s = 1 AND minute_count < %(per_minute)s AND day_count < %(per_day)s
                    AND day_count + 1 NOT IN (%(threshold_80)s, %(threshold_100)s) AS is_admitted
            FROM (
                SELECT now, minute_end, today,
                    CASE WHEN now >= minute_end THEN 0 ELSE q.minute_used END AS minute_count,
                    CASE WHEN today > q.day THEN 0 ELSE q.day_used END AS day_count,
                    CASE WHEN today > q.day THEN 0 ELSE q.day_here END AS day_count_here
                FROM (
                    SELECT now,
                        CASE WHEN now BETWEEN q.day * {DAY} - {NIGHT_SKEW} AND q.day * {DAY}
                            THEN q.day ELSE now / {DAY} END AS today,
                        CASE WHEN q.minute_ends > now + {MINUTE} THEN now + {MINUTE}
                            ELSE q.minute_ends END AS minute_end
                    FROM (
                        SELECT CASE WHEN excluded.seen_at BETWEEN q.seen_at - {SKEW} AND q.seen_at
                            THEN q.seen_at ELSE excluded.seen_at END AS now
                    ) AS clock
                ) AS ends
            ) AS counts
        ) AS decision
    )
RETURNING minute_ends, minute_used, day, day_used, seen_at, admitted
""")  # noqa: S608  Interpolates constants only.

MAX_LEVEL = len(BAN_LENGTHS) - 1
LEVELS = " ".join(f"WHEN {level} THEN {length}" for level, length in enumerate(BAN_LENGTHS))

# Step 6: `request` is 6a, `counts` is 6b, `decision` is 6c. window_strikes is positive for the request that
# triggers a ban, and 0 for requests that find the key already banned. Rejections before the last ban do not
# count, so the strikes are reset even if a worker of the previous version lifts the ban.
COUNT_REJECTION = RawStatement(f"""
INSERT INTO accounts_keystanding AS s
    (key_id, told_until, strikes, strikes_end, banned_at, banned_until, ban_level,
    refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes)
VALUES (%(key)s, 0, 0, 0, 0, 0, 0, %(rejecting_until)s, %(now)s, 0, 1, 0)
ON CONFLICT (key_id) DO UPDATE SET
    (refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes,
    banned_at, banned_until, ban_level) = (
        SELECT
            %(rejecting_until)s,
            CASE WHEN is_running THEN s.first_refusal_at ELSE %(now)s END,
            CASE WHEN NOT is_running THEN 0 WHEN is_strike THEN %(now)s ELSE s.last_strike_at END,
            rejection_count,
            CASE WHEN is_banned THEN 0 ELSE strike_count END,
            CASE WHEN triggers_ban THEN %(now)s ELSE s.banned_at END,
            CASE WHEN triggers_ban THEN %(now)s + CASE level {LEVELS} END
                ELSE s.banned_until END,
            CASE WHEN triggers_ban AND level < {MAX_LEVEL} THEN level + 1
                WHEN triggers_ban THEN level ELSE s.ban_level END
        FROM (
            SELECT is_running, is_strike, is_banned, rejection_count, strike_count, level,
                NOT is_banned AND strike_count >= {STRIKES_TO_BAN}
                    AND rejection_count >= %(rejections_to_ban)s AS triggers_ban
            FROM (
                SELECT is_running, is_strike, is_banned,
                    CASE WHEN is_running THEN s.window_refusals + 1 ELSE 1 END AS rejection_count,
                    CASE WHEN NOT is_running THEN 0 WHEN is_strike THEN s.window_strikes + 1
                        ELSE s.window_strikes END AS strike_count,
                    CASE WHEN clean_days >= s.ban_level THEN 0 ELSE s.ban_level - clean_days END AS level
                FROM (
                    SELECT
                        s.refusing_until = %(rejecting_until)s AND s.first_refusal_at > s.banned_at
                            AND %(now)s < s.first_refusal_at + {STRIKE_WINDOW} AS is_running,
                        %(now)s >= s.first_refusal_at + {FIRST_STRIKE_AFTER}
                            AND %(now)s >= s.last_strike_at + {STRIKE_INTERVAL} AS is_strike,
                        %(now)s < s.banned_until AS is_banned,
                        CASE WHEN %(now)s > s.banned_until
                            THEN (%(now)s - s.banned_until) / {STEP_BACK_AFTER} ELSE 0 END AS clean_days
                ) AS request
            ) AS counts
        ) AS decision
    )
RETURNING window_strikes, window_refusals, banned_until, ban_level
""")  # noqa: S608  Interpolates constants only.

# Rejected peeks count as well: their minute is a fixed window.
COUNT_PEEK = RawStatement(f"""
INSERT INTO accounts_keystanding AS s
    (key_id, told_until, strikes, strikes_end, banned_at, banned_until, ban_level, looks, looks_end)
VALUES (%(key)s, 0, 0, 0, 0, 0, 0, 1, %(now)s + {MINUTE})
ON CONFLICT (key_id) DO UPDATE SET
    (looks, looks_end) = (
        SELECT CASE WHEN is_running THEN s.looks + 1 ELSE 1 END,
            CASE WHEN is_running THEN s.looks_end ELSE %(now)s + {MINUTE} END
        FROM (
            SELECT s.looks_end > %(now)s AND s.looks_end <= %(now)s + {MINUTE + SKEW} AS is_running
        ) AS minute
    )
RETURNING looks, looks_end
""")  # noqa: S608  Interpolates constants only.


class DatabaseQuotaStore:
    """Counts windows in QuotaCounter, and strikes and bans in KeyStanding."""

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """See QuotaStore. Takes two queries, or three for a rejected request.

        Ignores `writes`: time_since_write stays 0, so the account reads from the primary.
        """
        now = time.time_ns() // 1000 if now is None else now
        record = key_record.read(key.public_id) or key_record.build_unknown(key.public_id)
        if rejection := check_key(key, record, address, now):
            return Admission(rejection=rejection)
        decision = count_request(record, now)
        if not decision.admitted and not decision.banned:
            decision = count_rejection(record, decision)
        write_behind.recorder.count(record.caller, decision)
        write_behind.recorder.rehash(key, record.id, record.pepper_number)
        return Admission(caller=record.caller, decision=decision)

    def peek(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """See QuotaStore. Takes two queries."""
        now = time.time_ns() // 1000 if now is None else now
        record = key_record.read(key.public_id) or key_record.build_unknown(key.public_id)
        if rejection := check_key(key, record, address, now):
            return Admission(rejection=rejection)
        peeks, peeks_end = COUNT_PEEK.execute(key=record.id, now=now)
        windows, adjusted_now = compute_windows(record, now)
        decision = decide_peek(windows, adjusted_now, record.banned_until, peeks=peeks, peeks_end=peeks_end)
        caller = record.caller._replace(record=record)
        write_behind.recorder.record_key_use(caller, adjusted_now)
        write_behind.recorder.rehash(key, record.id, record.pepper_number)
        return Admission(caller=caller, decision=decision)


def check_key(key: KeyText, record: KeyRecord, address: Address, now: int) -> KeyRejection | None:
    # Always compute one digest, so that the response time does not reveal whether the key exists.
    pepper = settings.API_KEY_PEPPERS.get(record.pepper_number, b"")
    if not (key_format.matches_digest(key, pepper, record.digest) and pepper):
        return KeyRejection.UNKNOWN
    if record.revoked:
        return KeyRejection.REVOKED
    if record.expires_at and record.expires_at <= now:
        return KeyRejection.EXPIRED
    if not networks.is_allowed(address, record.networks):
        return KeyRejection.NETWORK_NOT_ALLOWED
    return KeyRejection.SUSPENDED if record.suspended else None


def count_request(record: KeyRecord, now: int) -> RateLimitDecision:
    """Take steps 1 to 5.

    Before it counts a request that reaches a threshold, it stores the warning, since the process may die in
    between (D41).
    """
    decision = try_to_count(record, now)
    while is_warning_due(decision):
        day = decision.windows[-1]
        usage = day.used + 1
        write_behind.recorder.store_warnings(record.account_id, decision.day, day.limit, usage)
        decision = try_to_count(record, now, warned_usage=usage)
    return decision


def is_warning_due(decision: RateLimitDecision) -> bool:
    """Whether the request was not counted only because it reaches a threshold."""
    has_quota = all(window.remaining for window in decision.windows)
    return has_quota and not decision.admitted and not decision.banned


def try_to_count(record: KeyRecord, now: int, warned_usage: int = 0) -> RateLimitDecision:
    """Count the request, unless it reaches a threshold above the usage that has a warning already."""
    banned = record.banned_until > now
    thresholds = [-(-record.limits.per_day * threshold // 100) for threshold in THRESHOLDS]
    threshold_80, threshold_100 = (threshold if threshold > warned_usage else 0 for threshold in thresholds)
    *counters, adjusted_now, admitted = COUNT_REQUEST.execute(
        account=record.account_id,
        per_minute=record.limits.per_minute,
        per_day=record.limits.per_day,
        now=now,
        initial_count=0 if banned else 1,
        threshold_80=threshold_80,
        threshold_100=threshold_100,
    )
    windows = build_windows(record.limits, Counters(*counters), adjusted_now)
    banned_until = record.banned_until if banned else 0
    return RateLimitDecision(bool(admitted), windows, adjusted_now, banned_until)


def compute_windows(record: KeyRecord, now: int) -> tuple[tuple[Window, Window], int]:
    """Take steps 1 and 2 like COUNT_REQUEST; return the windows and the adjusted time."""
    if record.seen_at - SKEW <= now <= record.seen_at:
        now = record.seen_at
    day_start = record.day * DAY
    today = record.day if day_start - NIGHT_SKEW <= now <= day_start else now // DAY
    day_used = 0 if today > record.day else record.day_used
    counters = Counters(min(record.minute_ends, now + MINUTE), record.minute_used, today, day_used)
    return build_windows(record.limits, counters, now), now


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
