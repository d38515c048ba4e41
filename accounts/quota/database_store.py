"""The quota store that needs nothing but the database; exact on PostgreSQL and on SQLite."""

import time

from django.conf import settings

from accounts.events.warnings import THRESHOLDS
from accounts.keys import key_format, networks
from accounts.keys.identity import KeyFacts
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
    refusals_to_ban,
)
from accounts.quota.key_record import KeyRefusal
from accounts.quota.limits import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Counters,
    RateLimitDecision,
    Window,
    account_windows,
    look_verdict,
)
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.event_loop.compiled_writes import RawStatement

# Clocks of machines, and of statements that waited for one row, differ a little: within this many
# microseconds a time before the last one counts as the last one. A larger step back is a clock that was
# set: then the windows keep what was used and end as if they had just begun. But within NIGHT_SKEW before
# its midnight a day that has begun goes on: between two clocks its count would start anew each time.
SKEW = 5 * SECOND
NIGHT_SKEW = HOUR

# One statement decides and counts both windows, so nothing can come between. The inner SELECTs name the
# steps: the time, the windows at that time, the decision.
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

# A refusal: is it a strike, and does it ban (D26)? The strikes stay above zero only for the request that
# triggers the ban: those that meet it find none. What was counted before the last ban is void, so that
# lifting it forgets the strikes even if a worker of the previous version does so.
STRIKE = RawStatement(f"""
INSERT INTO accounts_keystanding AS s
    (key_id, told_until, strikes, strikes_end, banned_at, banned_until, ban_level,
    refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes)
VALUES (%(key)s, 0, 0, 0, 0, 0, 0, %(refusing_until)s, %(now)s, 0, 1, 0)
ON CONFLICT (key_id) DO UPDATE SET
    (refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes,
    banned_at, banned_until, ban_level) = (
        SELECT
            %(refusing_until)s,
            CASE WHEN running THEN s.first_refusal_at ELSE %(now)s END,
            CASE WHEN NOT running THEN 0 WHEN late THEN %(now)s ELSE s.last_strike_at END,
            refusals,
            CASE WHEN banned THEN 0 ELSE count END,
            CASE WHEN bans THEN %(now)s ELSE s.banned_at END,
            CASE WHEN bans THEN %(now)s + CASE level {LEVELS} END
                ELSE s.banned_until END,
            CASE WHEN bans AND level < {MAX_LEVEL} THEN level + 1 WHEN bans THEN level ELSE s.ban_level END
        FROM (
            SELECT running, late, banned, refusals, count, level,
                NOT banned AND count >= {STRIKES_TO_BAN} AND refusals >= %(refusals_to_ban)s AS bans
            FROM (
                SELECT running, late, banned,
                    CASE WHEN running THEN s.window_refusals + 1 ELSE 1 END AS refusals,
                    CASE WHEN NOT running THEN 0 WHEN late THEN s.window_strikes + 1
                        ELSE s.window_strikes END AS count,
                    CASE WHEN clean_days >= s.ban_level THEN 0 ELSE s.ban_level - clean_days END AS level
                FROM (
                    SELECT
                        s.refusing_until = %(refusing_until)s AND s.first_refusal_at > s.banned_at
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


# A look at the account. Those that are refused count as well: their minute ends all the same.
LOOK = RawStatement(f"""
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
    """Counts in two tables: QuotaCounter, a row for each account, and KeyStanding, for refused keys."""

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Prove the key and count the request: see QuotaStore. Two queries; three for a refusal.

        When an account wrote is not kept, so all its reads are of the primary.
        """
        now = time.time_ns() // 1000 if now is None else now
        facts = key_record.read(key.public_id) or key_record.absent(key.public_id)
        if refusal := refuse(key, facts, address, now):
            return Admission(refusal=refusal)
        decision = take(facts, now)
        if not decision.admitted and not decision.banned:
            decision = strike(facts, decision)
        write_behind.recorder.count(facts.caller, decision)
        write_behind.recorder.rehash(key, facts.id, facts.pepper_number)
        return Admission(caller=facts.caller, decision=decision)

    def look(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """Prove the key and show what is left: see QuotaStore. Two queries."""
        now = time.time_ns() // 1000 if now is None else now
        facts = key_record.read(key.public_id) or key_record.absent(key.public_id)
        if refusal := refuse(key, facts, address, now):
            return Admission(refusal=refusal)
        looks, looks_end = LOOK.row(key=facts.id, now=now)
        windows, at = windows_now(facts, now)
        decision = look_verdict(windows, at, facts.banned_until, looks=looks, looks_end=looks_end)
        caller = facts.caller._replace(facts=facts)
        write_behind.recorder.use(caller, at)
        write_behind.recorder.rehash(key, facts.id, facts.pepper_number)
        return Admission(caller=caller, decision=decision)


def refuse(key: KeyText, facts: KeyFacts, address: Address, now: int) -> KeyRefusal | None:
    # One digest, whatever is known of the key.
    pepper = settings.API_KEY_PEPPERS.get(facts.pepper_number, b"")
    if not (key_format.match(key, pepper, facts.digest) and pepper):
        return KeyRefusal.UNKNOWN
    if facts.revoked:
        return KeyRefusal.REVOKED
    if facts.expires_at and facts.expires_at <= now:
        return KeyRefusal.EXPIRED
    if not networks.allowed(address, facts.networks):
        return KeyRefusal.ELSEWHERE
    return KeyRefusal.SUSPENDED if facts.suspended else None


def take(facts: KeyFacts, now: int) -> RateLimitDecision:
    """Decide and count one request in both windows. A banned key's is refused whatever is left.

    What reaches a threshold is warned of before it counts: the process may die in between (D41).
    """
    decision = try_to_take(facts, now)
    while not (decision.admitted or decision.banned) and all(
        window.remaining for window in decision.windows
    ):
        day = decision.windows[-1]
        write_behind.recorder.warn_first(facts.account_id, decision.day, day.limit, day.used + 1)
        decision = try_to_take(facts, now, warned=day.used + 1)
    return decision


def try_to_take(facts: KeyFacts, now: int, warned: int = 0) -> RateLimitDecision:
    """Do so unless it would reach a threshold beyond what the account was `warned` of.

    Such a request is not admitted although both windows have something left.
    """
    banned = facts.banned_until > now
    marks = [-(-facts.limits.per_day * threshold // 100) for threshold in THRESHOLDS]
    mark_80, mark_100 = (mark if mark > warned else 0 for mark in marks)
    *counters, at, admitted = TAKE.row(
        account=facts.account_id,
        per_minute=facts.limits.per_minute,
        per_day=facts.limits.per_day,
        now=now,
        first=0 if banned else 1,
        mark_80=mark_80,
        mark_100=mark_100,
    )
    windows = account_windows(facts.limits, Counters(*counters), at)
    return RateLimitDecision(bool(admitted), windows, at, facts.banned_until if banned else 0)


def windows_now(facts: KeyFacts, now: int) -> tuple[tuple[Window, Window], int]:
    """Return both windows as TAKE would find them, and its time."""
    at = facts.seen_at if facts.seen_at - SKEW <= now <= facts.seen_at else now
    midnight = facts.day * DAY
    today = facts.day if midnight - NIGHT_SKEW <= at <= midnight else at // DAY
    day_used = 0 if today > facts.day else facts.day_used
    counters = Counters(min(facts.minute_ends, at + MINUTE), facts.minute_used, today, day_used)
    return account_windows(facts.limits, counters, at), at


def strike(facts: KeyFacts, decision: RateLimitDecision) -> RateLimitDecision:
    """Note a refusal, and return the decision with the ban that it may have set off."""
    strikes, refusals, banned_until, level = STRIKE.row(
        key=facts.id,
        now=decision.now,
        refusing_until=decision.reported.ends_at,
        refusals_to_ban=refusals_to_ban(facts.limits.per_minute),
    )
    if strikes and banned_until > decision.now:
        write_behind.recorder.ban(Ban(facts.id, decision.now, banned_until, level, refusals))
    return RateLimitDecision(False, decision.windows, decision.now, banned_until)
