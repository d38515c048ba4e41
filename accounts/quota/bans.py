"""The ban and its constants (D26), for step 6 of the quota rule in limits.py.

FIRST_STRIKE_AFTER excludes requests that were already in flight at the first rejection. STRIKE_INTERVAL
makes a burst a single strike.
"""

from accounts.quota.limits import DAY, MINUTE, SECOND
from petstore.text import format_duration

STRIKE_WINDOW = MINUTE
FIRST_STRIKE_AFTER = 2 * SECOND
STRIKE_INTERVAL = SECOND
STRIKES_TO_BAN = 20
MIN_REJECTIONS_TO_BAN = 20
BAN_LENGTHS = tuple(minutes * MINUTE for minutes in (5, 15, 60, 6 * 60, 24 * 60))  # By level.
STEP_BACK_AFTER = DAY  # Time without a ban that lowers the level by one.


def get_rejections_to_ban(per_minute: int) -> int:
    """Return half the minute limit, rounded up, but at least MIN_REJECTIONS_TO_BAN."""
    return max(MIN_REJECTIONS_TO_BAN, -(-per_minute // 2))


def get_level(ban_level: int, banned_until: int, now: int) -> int:
    """Return the level of a ban that starts now: one step back for each STEP_BACK_AFTER without a ban."""
    return max(0, ban_level - max(0, now - banned_until) // STEP_BACK_AFTER)


def describe(rejections: int, length: int) -> str:
    """Return the reason of a ban for the audit trail. The length is in microseconds."""
    rejected = f"{rejections} requests were rejected within a minute"
    return f"Kept sending after 429: {rejected}. Banned for {format_duration(length // MINUTE)}."
