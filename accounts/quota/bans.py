"""When a key is banned, and for how long (D26). Pure; both stores decide by these numbers.

Refusals are counted for one key and one refusing window, for at most 60 seconds. A strike is a refusal at
least 2 seconds after the first one, which excludes requests already in flight, and at least 1 second after
the last strike, so that a burst is at most one.
"""

from dataclasses import dataclass

from accounts.quota.limits import DAY, MINUTE, SECOND

STRIKE_WINDOW = MINUTE
FIRST_STRIKE_AFTER = 2 * SECOND
STRIKE_INTERVAL = SECOND
STRIKES_TO_BAN = 20
MIN_REFUSALS_TO_BAN = 20
# The first ban, and its repeats; the last one stays. One step back for each clean day.
BAN_LENGTHS = tuple(minutes * MINUTE for minutes in (5, 15, 60, 6 * 60, 24 * 60))
STEP_BACK_AFTER = DAY


def refusals_to_ban(per_minute: int) -> int:
    """Return the refusals that a ban needs besides its strikes: half the minute limit, at least 20."""
    return max(MIN_REFUSALS_TO_BAN, -(-per_minute // 2))


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban that a refusal has just triggered. Times are microseconds since the epoch."""

    key_id: int
    began_at: int
    ends_at: int
    level: int  # How many steps the next ban starts from, before clean days are taken off.
    refusals: int

    @property
    def reason(self) -> str:
        """For staff."""
        minutes = (self.ends_at - self.began_at) // MINUTE
        sent = f"Kept sending after 429: {self.refusals} requests were refused within a minute."
        return f"{sent} Banned for {minutes} minutes."
