"""The ban and its constants (D26), for step 6 of the quota rule in limits.py.

FIRST_STRIKE_AFTER excludes requests that were already in flight at the first rejection. STRIKE_INTERVAL
makes a burst a single strike.
"""

from dataclasses import dataclass

from django.template.defaultfilters import pluralize

from accounts.quota.limits import DAY, MINUTE, SECOND

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


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban that a rejection has just triggered. Times are microseconds since the epoch."""

    key_id: int
    started_at: int
    ends_at: int
    next_level: int  # The level of the next ban, unless time without a ban lowers it.
    rejections: int

    @property
    def reason(self) -> str:
        hours, minutes = divmod((self.ends_at - self.started_at) // MINUTE, 60)
        duration = f"{minutes} minutes" if minutes else f"{hours} hour{pluralize(hours)}"
        return (
            f"Kept sending after 429: {self.rejections} requests were rejected within a minute. "
            f"Banned for {duration}."
        )
