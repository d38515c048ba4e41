"""The quota rule (D21 to D28, D39, D41). sql.py has it in SQL, and cites its steps by number.

    1. Clock. `now` is the time at which PostgreSQL received the statement, or on SQLite the process's time.
    2. Windows, as they are before the request.
       a. Minute: if now >= minute_ends_at, the minute has ended: minute.used = 0, and minute_ends_at =
          now + MINUTE.
       b. Day: the UTC day of `now`. If it is later than the stored day, day.used = 0. If it is earlier, the
          stored day stays.
       c. If minute_ends_at is more than MINUTE + SKEW ahead of `now`, or the stored day begins more than
          NIGHT_SKEW ahead, the clock was set back. Lower minute_ends_at to at most now + MINUTE, and a day
          that begins more than NIGHT_SKEW ahead to that of `now`, but keep both counts. Start over.
    3. Key. The first that applies rejects the request, which then counts in no window and is no strike: the
       key is unknown or its secret wrong; it is revoked; now >= expires_at; the client's address is in none
       of its networks; its account is suspended (D45); now < banned_until.
    4. Decision. admitted = minute.used < per_minute and day.used < per_day. The limits are those of the
       account, or else of its plan.
    5. Count. If admitted, add 1 to both windows. If that brings day.used to a warning threshold whose
       warning is not stored for this day, store it first, and start over (D41). A rejected request counts
       in neither window.
    6. Strikes (D26), if step 4 rejected the request.
       a. The end of the rejecting window identifies the strike window; if both windows reject, the later
          end does. Start a new strike window, with rejections = strikes = 0, if that end has changed, if
          STRIKE_WINDOW has passed since the first rejection, or if a ban has been set or lifted since.
       b. rejections += 1. The rejection is a strike if it comes at least FIRST_STRIKE_AFTER after the first
          rejection and at least STRIKE_INTERVAL after the last strike.
       c. Ban the key if strikes >= STRIKES_TO_BAN and rejections >= get_rejections_to_ban(per_minute).
          level = max(0, ban_level - whole STEP_BACK_AFTER periods since the last ban ended);
          banned_until = now + BAN_LENGTHS[level]; ban_level = level + 1, at most the last level.
    7. Remaining. max(0, limit - used) for each window, after step 5.
    8. Reset. minute_ends_at, or now + MINUTE if no minute is running; the end of the counted day; the end
       of the ban. RateLimitDecision chooses the window that the headers report.

A peek (D39) takes steps 1 to 3, 7 and 8. A ban does not reject it, and it has its own limit, whose minute
follows step 2. Times are whole microseconds since the epoch. This module is pure: no models, no settings,
no clock.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from petstore.api.errors import ErrorCode

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 86_400 * SECOND
# How far the clock may go back (step 2c), for example in a failover to a server whose clock is behind.
SKEW = 5 * SECOND
NIGHT_SKEW = HOUR
PEEKS_PER_MINUTE = 60  # GET /v1/account requests per key (D39).


class Limits(NamedTuple):
    per_minute: int
    per_day: int


class Window(NamedTuple):
    name: str
    limit: int
    used: int
    length: int
    ends_at: int

    @property
    def remaining(self) -> int:
        """The limit may have been lowered below the usage."""
        return max(0, self.limit - self.used)

    @property
    def reset(self) -> int:
        """The Unix time at which the window resets, in seconds, rounded up."""
        return -(-self.ends_at // SECOND)


class RateLimitDecision(NamedTuple):
    """The decision on one request, and the windows after it."""

    admitted: bool
    windows: tuple[Window, ...]  # The shortest comes first.
    now: int  # Microseconds since the epoch, by the clock of step 1.
    banned_until: int = 0  # 0 or in the past if the key is not banned.

    @property
    def banned(self) -> bool:
        return self.banned_until > self.now

    @property
    def day(self) -> int:
        """The day that the request counts for, in days since the epoch; `now` may precede it (step 2b)."""
        return self.windows[-1].ends_at // DAY - 1

    @property
    def reported_window(self) -> Window:
        """The window that the headers report (D23).

        For an admitted request, this is the window with the fewest requests remaining, or the longer one on
        a tie. For a rejected request, it is the rejecting window that resets last. A ban counts as a window
        with nothing remaining.
        """
        if self.admitted:
            return min(reversed(self.windows), key=lambda window: window.remaining)
        rejecting = [window for window in self.windows if window.remaining == 0]
        if self.banned:
            minute = self.windows[0]
            rejecting.append(Window("ban", minute.limit, minute.limit, 0, self.banned_until))
        return max(rejecting, key=lambda window: (window.ends_at, window.length))

    @property
    def retry_after(self) -> int:
        """Seconds until a rejected request can succeed, at least 1 (D24)."""
        return max(1, self.seconds_until_reset(self.reported_window))

    @property
    def error_code(self) -> ErrorCode:
        if self.banned:
            return ErrorCode.API_KEY_BANNED
        if self.reported_window.length == DAY:
            return ErrorCode.DAILY_QUOTA_EXCEEDED
        return ErrorCode.RATE_LIMIT_EXCEEDED

    def seconds_until_reset(self, window: Window) -> int:
        """Seconds until a window resets, rounded up."""
        return max(0, -(-(window.ends_at - self.now) // SECOND))


def build_windows(now: int, limits: Limits, *counters: int) -> tuple[Window, Window]:
    """`counters` are the end of the minute, its usage, the day in days since the epoch, and its usage."""
    minute_ends_at, minute_used, day, day_used = counters
    if minute_ends_at <= now:  # The next admitted request starts a minute.
        minute_ends_at, minute_used = now + MINUTE, 0
    return (
        Window("minute", limits.per_minute, minute_used, MINUTE, minute_ends_at),
        Window("day", limits.per_day, day_used, DAY, (day + 1) * DAY),
    )


def to_datetime(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / SECOND, UTC)


def to_microseconds(timestamp: datetime) -> int:
    return round(timestamp.timestamp() * SECOND)
