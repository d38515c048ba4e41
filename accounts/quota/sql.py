"""The quota rule in SQL, the same text on PostgreSQL and SQLite. limits.py states it in words.

ADMIT authenticates a key and counts the request if the key is valid and both windows have quota left.
REJECT counts a rejection if one of them has none. Each returns a row if it applied. READ tells why neither
did. Nothing about keys is cached, so every change applies to the next statement.

Only three fragments differ between the databases: the clock, the comparison of dates with it, and
RETURNING, which can't name tables on SQLite. The statements are flat, because PostgreSQL would
evaluate the expressions of nested subqueries once for each use.
"""

from functools import cache

from accounts.models.records import QuotaUsage, StrikeCounter
from accounts.quota.bans import FIRST_STRIKE_AFTER, STRIKE_INTERVAL, STRIKE_WINDOW
from accounts.quota.limits import DAY, MINUTE, NIGHT_SKEW, PEEKS_PER_MINUTE, SKEW
from petstore.db.identity import is_postgresql

# OFFSET 0 keeps PostgreSQL from evaluating the clock at each use.
POSTGRESQL_CLOCK = """(
    SELECT coalesce(
        CAST(%(now)s AS bigint), CAST(date_part('epoch', statement_timestamp()) * 1000000 AS bigint)
    ) AS now{settings} OFFSET 0
)"""
# The transaction of a write does not wait for the disk, and fails if it waits for a lock for 250 ms. Both
# are set before a row is locked, and for this transaction only, so they also work through a pooler.
WRITE_SETTINGS = """,
    set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '250ms', true)"""
SQLITE_CLOCK = "(SELECT CAST(%(now)s AS bigint) AS now)"

KEY = """accounts_apikey AS k
    JOIN accounts_account AS a ON a.id = k.account_id
    JOIN accounts_plan AS p ON p.code = a.plan_id"""
STATE = """LEFT JOIN accounts_ratelimitstate AS s ON s.key_id = k.id
    LEFT JOIN accounts_usagegeneration AS g ON g.account_id = k.account_id"""
USAGE = """LEFT JOIN accounts_quotausage AS q
        ON q.account_id = g.account_id AND q.generation = g.generation"""
PER_MINUTE = "coalesce(a.per_minute, p.per_minute)"
PER_DAY = "coalesce(a.per_day, p.per_day)"
NETWORKS = "CAST(k.allowed_networks AS text)"

# Steps 2a and 2b.
TODAY = f"clock.now / {DAY}"
MINUTE_END = f"CASE WHEN q.minute_ends_at > clock.now THEN q.minute_ends_at ELSE clock.now + {MINUTE} END"
MINUTE_USED = "CASE WHEN q.minute_ends_at > clock.now THEN q.minute_used ELSE 0 END"
COUNTED_DAY = f"CASE WHEN q.day > {TODAY} THEN q.day ELSE {TODAY} END"
DAY_USED = f"CASE WHEN q.day >= {TODAY} THEN q.day_used ELSE 0 END"
WARNED = f"CASE WHEN q.day >= {TODAY} THEN q.warned_threshold ELSE 0 END"

# Step 2c: the clock was set back. SET_BACK then moves the windows back as well, with their usage.
IS_AHEAD = f"""q.minute_ends_at > clock.now + {MINUTE + SKEW}
        OR q.day > {TODAY} AND q.day * {DAY} > clock.now + {NIGHT_SKEW}"""

KEY_COLUMNS = ("clock.now", "k.id", "k.account_id", "k.pepper_number", "k.scopes", PER_MINUTE, PER_DAY)
WINDOW_COLUMNS = (MINUTE_END, MINUTE_USED, COUNTED_DAY, DAY_USED)

# Steps 3 to 5.
IS_BANNED = "coalesce(s.banned_until, 0) > clock.now"
HAS_QUOTA = f"{MINUTE_USED} < {PER_MINUTE} AND {DAY_USED} < {PER_DAY}"
IS_WARNED = f"""CASE
        WHEN {DAY_USED} + 1 >= {PER_DAY} THEN 100
        WHEN ({DAY_USED} + 1) * 100 >= {PER_DAY} * 80 THEN 80
        ELSE 0 END <= {WARNED}"""
IS_VALID = f"""k.public_id = %(public_id)s AND ({{proof}}) AND k.revoked_at IS NULL
    AND (k.expires_at IS NULL OR NOT {{expired}}) AND {NETWORKS} = %(networks)s
    AND a.suspended_at IS NULL AND NOT {IS_BANNED}"""

ADMIT = f"""
UPDATE accounts_quotausage AS q SET
    updates = q.updates + 1,
    minute_ends_at = {MINUTE_END},
    minute_used = {MINUTE_USED} + 1,
    day = {COUNTED_DAY},
    day_used = {DAY_USED} + 1,
    warned_threshold = {WARNED},
    last_write_at = CASE WHEN %(may_write)s = 1 THEN clock.now ELSE q.last_write_at END
FROM {{writing_clock}} AS clock CROSS JOIN {KEY} {STATE}
WHERE {IS_VALID}
    AND q.account_id = g.account_id AND q.generation = g.generation
    AND q.updates < {QuotaUsage.MAX_UPDATES} AND {HAS_QUOTA} AND {IS_WARNED} AND NOT ({IS_AHEAD})
RETURNING {{key}}, {{q}}minute_ends_at, {{q}}minute_used, {{q}}day, {{q}}day_used, {{q}}last_write_at
"""

# Step 6. If both windows reject, the later end identifies the strike window.
REJECTING_UNTIL = f"""CASE
        WHEN {DAY_USED} < {PER_DAY} THEN {MINUTE_END}
        WHEN {MINUTE_USED} >= {PER_MINUTE} AND {MINUTE_END} > ({COUNTED_DAY} + 1) * {DAY} THEN {MINUTE_END}
        ELSE ({COUNTED_DAY} + 1) * {DAY} END"""
IS_RUNNING = f"""c.rejecting_until = {REJECTING_UNTIL}
        AND clock.now < c.first_rejection_at + {STRIKE_WINDOW}
        AND c.first_rejection_at >= coalesce(s.banned_until, 0)"""
IS_STRIKE = f"""clock.now >= c.first_rejection_at + {FIRST_STRIKE_AFTER}
        AND clock.now >= c.last_strike_at + {STRIKE_INTERVAL}"""
REJECT = f"""
UPDATE accounts_strikecounter AS c SET
    updates = c.updates + 1,
    rejecting_until = {REJECTING_UNTIL},
    first_rejection_at = CASE WHEN {IS_RUNNING} THEN c.first_rejection_at ELSE clock.now END,
    last_strike_at = CASE WHEN NOT ({IS_RUNNING}) THEN 0 WHEN {IS_STRIKE} THEN clock.now
        ELSE c.last_strike_at END,
    rejections = CASE WHEN {IS_RUNNING} THEN c.rejections + 1 ELSE 1 END,
    strikes = CASE WHEN NOT ({IS_RUNNING}) THEN 0 WHEN {IS_STRIKE} THEN c.strikes + 1 ELSE c.strikes END
FROM {{writing_clock}} AS clock CROSS JOIN {KEY} {STATE} {USAGE}
WHERE {IS_VALID} AND NOT ({HAS_QUOTA}) AND NOT ({IS_AHEAD})
    AND c.key_id = s.key_id AND c.generation = s.strike_generation
    AND c.updates < {StrikeCounter.MAX_UPDATES}
RETURNING {{key}}, {{windows}}, {{c}}rejections, {{c}}strikes, {{c}}first_rejection_at
"""

# The order of the reasons is that of step 3; a network is checked by the worker.
READ = f"""
SELECT {", ".join(KEY_COLUMNS)},
    {", ".join(WINDOW_COLUMNS)}, {NETWORKS},
    CASE WHEN NOT ({{proof}}) THEN 'unknown'
        WHEN k.revoked_at IS NOT NULL THEN 'revoked'
        WHEN {{expired}} THEN 'expired'
        WHEN {NETWORKS} <> %(networks)s THEN 'networks'
        WHEN a.suspended_at IS NOT NULL THEN 'suspended'
        WHEN {IS_BANNED} THEN 'banned'
        WHEN coalesce(q.updates, {QuotaUsage.MAX_UPDATES}) >= {QuotaUsage.MAX_UPDATES} THEN 'usage'
        WHEN {IS_AHEAD} THEN 'ahead'
        WHEN {HAS_QUOTA} AND NOT ({IS_WARNED}) THEN 'warning'
        WHEN NOT ({HAS_QUOTA}) AND coalesce(c.updates, {StrikeCounter.MAX_UPDATES})
            >= {StrikeCounter.MAX_UPDATES} THEN 'strikes'
        ELSE '' END,
    coalesce(s.banned_until, 0), coalesce(s.peeks_reset_at, 0), coalesce(q.last_write_at, 0)
FROM {{clock}} AS clock CROSS JOIN {KEY} {STATE} {USAGE}
    LEFT JOIN accounts_strikecounter AS c ON c.key_id = s.key_id AND c.generation = s.strike_generation
WHERE k.public_id = %(public_id)s
"""

READ_WINDOWS = f"""
SELECT clock.now, {PER_MINUTE}, {PER_DAY}, {", ".join(WINDOW_COLUMNS)}
FROM {{clock}} AS clock CROSS JOIN accounts_account AS a JOIN accounts_plan AS p ON p.code = a.plan_id
    LEFT JOIN accounts_usagegeneration AS g ON g.account_id = a.id {USAGE}
WHERE a.id = %(account_id)s
"""
ROW_IN_USE = """FROM {writing_clock} AS clock CROSS JOIN accounts_usagegeneration AS g
WHERE g.account_id = %(account_id)s AND q.account_id = g.account_id AND q.generation = g.generation"""
SET_BACK = f"""
UPDATE accounts_quotausage AS q SET
    minute_ends_at = CASE WHEN q.minute_ends_at > clock.now + {MINUTE} THEN clock.now + {MINUTE}
        ELSE q.minute_ends_at END,
    day = CASE WHEN q.day * {DAY} > clock.now + {NIGHT_SKEW} THEN {TODAY} ELSE q.day END
{ROW_IN_USE} AND ({IS_AHEAD})
RETURNING {{q}}account_id
"""
RECORD_WRITE = f"""
UPDATE accounts_quotausage AS q SET last_write_at = clock.now
{ROW_IN_USE}
RETURNING {{q}}account_id
"""

# A peek over the limit updates nothing, so that a flood of them leaves no versions.
# `excluded.peeks_reset_at` is a minute from now.
IS_PEEK_MINUTE_RUNNING = f"""s.peeks_reset_at > excluded.peeks_reset_at - {MINUTE}
        AND s.peeks_reset_at <= excluded.peeks_reset_at + {SKEW}"""
PEEK = f"""
INSERT INTO accounts_ratelimitstate AS s
    (key_id, banned_at, banned_until, ban_level, strike_generation, peeks, peeks_reset_at)
SELECT %(key_id)s, 0, 0, 0, 0, 1, clock.now + {MINUTE} FROM {{writing_clock}} AS clock WHERE true
ON CONFLICT (key_id) DO UPDATE SET
    peeks = CASE WHEN {IS_PEEK_MINUTE_RUNNING} THEN s.peeks + 1 ELSE 1 END,
    peeks_reset_at = CASE WHEN {IS_PEEK_MINUTE_RUNNING} THEN s.peeks_reset_at
        ELSE excluded.peeks_reset_at END
WHERE s.peeks < {PEEKS_PER_MINUTE} OR NOT ({IS_PEEK_MINUTE_RUNNING})
RETURNING peeks, peeks_reset_at
"""


@cache
def build_sql(template: str, pepper_count: int) -> str:
    """Complete a statement for keys that may be signed with any of this number of peppers.

    Parameters: `now`, None for the clock of PostgreSQL; `now_text`, the same for SQLite's dates;
    `public_id`; `pepper_1`, `digest_1` and so on; `networks`, those that the caller has checked;
    `may_write`, 0 or 1.
    """
    proof = " OR ".join(
        f"k.pepper_number = %(pepper_{number})s AND k.digest = %(digest_{number})s"
        for number in range(1, pepper_count + 1)
    )
    key, windows = ", ".join(KEY_COLUMNS), ", ".join(WINDOW_COLUMNS)
    if is_postgresql():
        clock = POSTGRESQL_CLOCK.format(settings="")
        writing_clock = POSTGRESQL_CLOCK.format(settings=WRITE_SETTINGS)
        expired = "k.expires_at <= TIMESTAMPTZ 'epoch' + clock.now * INTERVAL '1 microsecond'"
        q, c = "q.", "c."
    else:
        clock = writing_clock = SQLITE_CLOCK
        expired = "k.expires_at <= %(now_text)s"
        q = c = ""
        # RETURNING may only name columns of the updated table.
        source = f"FROM {clock} AS clock CROSS JOIN {KEY} {STATE} {USAGE} WHERE k.public_id = %(public_id)s"
        key, windows = (
            ", ".join(f"(SELECT {column} {source})" for column in columns)
            for columns in (KEY_COLUMNS, WINDOW_COLUMNS)
        )
    return template.format(
        clock=clock, writing_clock=writing_clock, proof=proof, expired=expired, key=key, windows=windows,
        q=q, c=c,
    )  # fmt: skip
