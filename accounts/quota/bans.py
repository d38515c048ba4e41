"""The constants of bans (D26), for step 6 of the quota rule in limits.py.

FIRST_STRIKE_AFTER excludes requests that were already in flight at the first rejection. STRIKE_INTERVAL
makes a burst a single strike.
"""

from dataclasses import dataclass

from accounts.quota.limits import DAY, MINUTE, SECOND

STRIKE_WINDOW = MINUTE
FIRST_STRIKE_AFTER = 2 * SECOND
STRIKE_INTERVAL = SECOND
STRIKES_TO_BAN = 20
MIN_REJECTIONS_TO_BAN = 20
# By level. Each clean day lowers the level by one.
BAN_LENGTHS = tuple(minutes * MINUTE for minutes in (5, 15, 60, 6 * 60, 24 * 60))
STEP_BACK_AFTER = DAY


def rejections_to_ban(per_minute: int) -> int:
    """Half the minute limit, at least 20. A ban needs these besides its strikes."""
    return max(MIN_REJECTIONS_TO_BAN, -(-per_minute // 2))


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban that a rejection has just triggered. Times are microseconds since the epoch."""

    key_id: int
    started_at: int
    ends_at: int
    next_level: int  # Of the next ban, before clean days are subtracted.
    rejections: int

    @property
    def reason(self) -> str:
        minutes = (self.ends_at - self.started_at) // MINUTE
        sent = f"Kept sending after 429: {self.rejections} requests were rejected within a minute."
        return f"{sent} Banned for {minutes} minutes."
