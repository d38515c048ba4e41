"""The quota store that counts in the database, PostgreSQL or SQLite. See limits.py for the rule's steps."""

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
    rejections_to_ban,
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
    peek_decision,
)
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.event_loop.compiled_writes import RawStatement

# Tolerated clock differences between machines (steps 1 and 2). Without NIGHT_SKEW, two clocks on either
# side of midnight would reset the day's count with every request.
SKEW = 5 * SECOND
NIGHT_SKEW = HOUR

# Steps 1, 2, 4 and 5 in one atomic statement: `clock` is step 1, `ends` and `counts` are step 2, `decision`
# is step 4. `first` is 0 for a banned key.
TAKE = RawStatement(f"""
INSERT INTO accounts_quotacounter AS q
    (account_id, minute_ends, minute_used, day, day_used, day_here, seen_at, admitted)
VALUES (%(account)s, %(now)s + {MINUTE}, %(first)s, %(now)s / {DAY}, %(first)s, %(first)s, %(now)s,
    %(first)s = 1)
ON CONFLICT (account_id) DO UPDATE SET
    (minute_ends, minute_used, day, day_used, day_here, seen_at, admitted) = (
        SELECT
            CASE WHEN ok AND now >= minute_end THEN now + {MINUTE} ELSE minute_end END,
            CASE WHEN ok THEN minute_count + 1 ELSE minute_count END,
            today,
            CASE WHEN ok THEN day_count + 1 ELSE day_count END,
            CASE WHEN ok THEN here_count + 1 ELSE here_count END,
            now,
            ok
        FROM (
            SELECT now, minute_end, minute_count, today, day_count, here_count,
                %(first)s = 1 AND minute_count < %(per_minute)s AND day_count < %(per_day)s
                    AND day_count + 1 NOT IN (%(mark_80)s, %(mark_100)s) AS ok
            FROM (
                SELECT now, minute_end, today,
                    CASE WHEN now >= minute_end THEN 0 ELSE q.minute_used END AS minute_count,
                    CASE WHEN today > q.day THEN 0 ELSE q.day_used END AS day_count,
                    CASE WHEN today > q.day THEN 0 ELSE q.day_here END AS here_count
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
""")  # noqa: S608  Only constants are put in.

MAX_LEVEL = len(BAN_LENGTHS) - 1
LEVELS = " ".join(f"WHEN {level} THEN {length}" for level, length in enumerate(BAN_LENGTHS))

# Step 6: `request` is 6a, `counts` is 6b, `decision` is 6c. window_strikes is above zero for the request
# that triggers a ban and zero for those that find the key banned. Rejections from before the last ban do
# not count, so the strikes are reset even if a worker of the previous version lifts the ban.
STRIKE = RawStatement(f"""
INSERT INTO accounts_keystanding AS s
    (key_id, told_until, strikes, strikes_end, banned_at, banned_until, ban_level,
    refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes)
VALUES (%(key)s, 0, 0, 0, 0, 0, 0, %(rejecting_until)s, %(now)s, 0, 1, 0)
ON CONFLICT (key_id) DO UPDATE SET
    (refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes,
    banned_at, banned_until, ban_level) = (
        SELECT
            %(rejecting_until)s,
            CASE WHEN running THEN s.first_refusal_at ELSE %(now)s END,
            CASE WHEN NOT running THEN 0 WHEN late THEN %(now)s ELSE s.last_strike_at END,
            rejections,
            CASE WHEN banned THEN 0 ELSE count END,
            CASE WHEN bans THEN %(now)s ELSE s.banned_at END,
            CASE WHEN bans THEN %(now)s + CASE level {LEVELS} END
                ELSE s.banned_until END,
            CASE WHEN bans AND level < {MAX_LEVEL} THEN level + 1 WHEN bans THEN level ELSE s.ban_level END
        FROM (
            SELECT running, late, banned, rejections, count, level,
                NOT banned AND count >= {STRIKES_TO_BAN} AND rejections >= %(rejections_to_ban)s AS bans
            FROM (
                SELECT running, late, banned,
                    CASE WHEN running THEN s.window_refusals + 1 ELSE 1 END AS rejections,
                    CASE WHEN NOT running THEN 0 WHEN late THEN s.window_strikes + 1
                        ELSE s.window_strikes END AS count,
                    CASE WHEN clean_days >= s.ban_level THEN 0 ELSE s.ban_level - clean_days END AS level
                FROM (
                    SELECT
                        s.refusing_until = %(rejecting_until)s AND s.first_refusal_at > s.banned_at
                            AND %(now)s < s.first_refusal_at + {STRIKE_WINDOW} AS running,
                        %(now)s >= s.first_refusal_at + {FIRST_STRIKE_AFTER}
                            AND %(now)s >= s.last_strike_at + {STRIKE_INTERVAL} AS late,
                        %(now)s < s.banned_until AS banned,
                        CASE WHEN %(now)s > s.banned_until
                            THEN (%(now)s - s.banned_until) / {STEP_BACK_AFTER} ELSE 0 END AS clean_days
                ) AS request
            ) AS counts
        ) AS decision
    )
RETURNING window_strikes, window_refusals, banned_until, ban_level
""")  # noqa: S608  Only constants are put in.


# Rejected peeks count, too: their minute is a fixed window.
PEEK = RawStatement(f"""
INSERT INTO accounts_keystanding AS s
    (key_id, told_until, strikes, strikes_end, banned_at, banned_until, ban_level, looks, looks_end)
VALUES (%(key)s, 0, 0, 0, 0, 0, 0, 1, %(now)s + {MINUTE})
ON CONFLICT (key_id) DO UPDATE SET
    (looks, looks_end) = (
        SELECT CASE WHEN running THEN s.looks + 1 ELSE 1 END,
            CASE WHEN running THEN s.looks_end ELSE %(now)s + {MINUTE} END
        FROM (
            SELECT s.looks_end > %(now)s AND s.looks_end <= %(now)s + {MINUTE + SKEW} AS running
        ) AS minute
    )
RETURNING looks, looks_end
""")  # noqa: S608  Only constants are put in.


class DatabaseQuotaStore:
    """Counts windows in QuotaCounter, strikes and bans in KeyStanding."""

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """See QuotaStore. Two queries, three for a rejected request.

        Does not record writes, so time_since_write stays 0 and all reads use the primary.
        """
        now = time.time_ns() // 1000 if now is None else now
        record = key_record.read(key.public_id) or key_record.build_unknown(key.public_id)
        if rejection := check_key(key, record, address, now):
            return Admission(rejection=rejection)
        decision = take(record, now)
        if not decision.admitted and not decision.banned:
            decision = strike(record, decision)
        write_behind.recorder.count(record.caller, decision)
        write_behind.recorder.rehash(key, record.id, record.pepper_number)
        return Admission(caller=record.caller, decision=decision)

    def peek(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """See QuotaStore. Two queries."""
        now = time.time_ns() // 1000 if now is None else now
        record = key_record.read(key.public_id) or key_record.build_unknown(key.public_id)
        if rejection := check_key(key, record, address, now):
            return Admission(rejection=rejection)
        peeks, peeks_end = PEEK.execute(key=record.id, now=now)
        windows, at = windows_now(record, now)
        decision = peek_decision(windows, at, record.banned_until, peeks=peeks, peeks_end=peeks_end)
        caller = record.caller._replace(record=record)
        write_behind.recorder.record_key_use(caller, at)
        write_behind.recorder.rehash(key, record.id, record.pepper_number)
        return Admission(caller=caller, decision=decision)


def check_key(key: KeyText, record: KeyRecord, address: Address, now: int) -> KeyRejection | None:
    # One digest in any case: the response time must not tell whether the key exists.
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


def take(record: KeyRecord, now: int) -> RateLimitDecision:
    """Decide on one request and count it.

    Stores the warning of a threshold before it counts the request that reaches it, since the process may
    die in between (D41).
    """
    decision = try_to_take(record, now)
    while not (decision.admitted or decision.banned) and all(
        window.remaining for window in decision.windows
    ):
        day = decision.windows[-1]
        write_behind.recorder.store_warnings(record.account_id, decision.day, day.limit, day.used + 1)
        decision = try_to_take(record, now, warned=day.used + 1)
    return decision


def try_to_take(record: KeyRecord, now: int, warned: int = 0) -> RateLimitDecision:
    """Count the request unless it reaches a threshold above `warned`, the use that was warned of.

    Such a request is not admitted although both windows have requests left.
    """
    banned = record.banned_until > now
    marks = [-(-record.limits.per_day * threshold // 100) for threshold in THRESHOLDS]
    mark_80, mark_100 = (mark if mark > warned else 0 for mark in marks)
    *counters, at, admitted = TAKE.execute(
        account=record.account_id,
        per_minute=record.limits.per_minute,
        per_day=record.limits.per_day,
        now=now,
        first=0 if banned else 1,
        mark_80=mark_80,
        mark_100=mark_100,
    )
    windows = build_windows(record.limits, Counters(*counters), at)
    return RateLimitDecision(bool(admitted), windows, at, record.banned_until if banned else 0)


def windows_now(record: KeyRecord, now: int) -> tuple[tuple[Window, Window], int]:
    """Take steps 1 and 2 as TAKE does; return the windows and the adjusted time."""
    at = record.seen_at if record.seen_at - SKEW <= now <= record.seen_at else now
    midnight = record.day * DAY
    today = record.day if midnight - NIGHT_SKEW <= at <= midnight else at // DAY
    day_used = 0 if today > record.day else record.day_used
    counters = Counters(min(record.minute_ends, at + MINUTE), record.minute_used, today, day_used)
    return build_windows(record.limits, counters, at), at


def strike(record: KeyRecord, decision: RateLimitDecision) -> RateLimitDecision:
    """Record a rejection; return the decision with the ban that it may have triggered."""
    strikes, rejections, banned_until, level = STRIKE.execute(
        key=record.id,
        now=decision.now,
        rejecting_until=decision.reported_window.ends_at,
        rejections_to_ban=rejections_to_ban(record.limits.per_minute),
    )
    if strikes and banned_until > decision.now:
        write_behind.recorder.record_ban(Ban(record.id, decision.now, banned_until, level, rejections))
    return RateLimitDecision(False, decision.windows, decision.now, banned_until)
