"""When a key is banned, and for how long (D26). Pure; both stores decide by these numbers.

A strike is a request that is refused before the Retry-After of an earlier refusal ran out. Strikes are
counted in windows of 60 seconds that begin with the first one.
"""

from dataclasses import dataclass

from accounts.limits import DAY, MINUTE

STRIKE_WINDOW = MINUTE
MIN_STRIKES = 10
# The first ban, and its repeats; the last one stays. One step back for each clean day.
BAN_LENGTHS = tuple(minutes * MINUTE for minutes in (5, 15, 60, 6 * 60, 24 * 60))
STEP_BACK_AFTER = DAY


def strikes_to_ban(per_minute: int) -> int:
    """Return how many strikes ban a key: half the account's minute limit, at least 10."""
    return max(MIN_STRIKES, -(-per_minute // 2))


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban that a refusal has just set off. Times are microseconds since the epoch."""

    key_id: int
    began_at: int
    ends_at: int
    level: int  # How many steps the next ban starts from, before clean days are taken off.
    strikes: int
