"""What a quota store decides about one request. Pure: no model, no setting, no clock.

Times are whole microseconds since the epoch.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from petstore.api.errors import ErrorCode

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 86_400 * SECOND
LOOKS_PER_MINUTE = 60  # Of a key at its account (D39).


class Limits(NamedTuple):
    per_minute: int
    per_day: int


class Counters(NamedTuple):
    """What a store keeps of an account's windows; `day` counts days since the epoch."""

    minute_ends: int
    minute_used: int
    day: int
    day_used: int


class Window(NamedTuple):
    name: str
    limit: int
    used: int
    length: int
    ends_at: int

    @property
    def remaining(self) -> int:
        """Requests that the window still admits; 0 where a lowered limit lies under what was used."""
        return max(0, self.limit - self.used)

    @property
    def reset(self) -> int:
        """The Unix time, in whole seconds, from which on the window admits again."""
        return -(-self.ends_at // SECOND)


class RateLimitDecision(NamedTuple):
    """The decision about one request, and the state of the windows after it."""

    admitted: bool
    windows: tuple[Window, ...]  # The shorter first.
    now: int  # By the clock that decided.
    banned_until: int = 0  # When the key's ban ends; in the past or 0 where there is none.

    @property
    def banned(self) -> bool:
        return self.banned_until > self.now

    @property
    def day(self) -> int:
        """The day that an account's request counts for, since the epoch: the clock may be behind it."""
        return self.windows[-1].ends_at // DAY - 1

    @property
    def reported(self) -> Window:
        """The window that the headers speak of (D23).

        The one with the least remaining, on a tie the longer; of those that refuse, the one that resets
        last. A ban refuses like a window that has nothing left.
        """
        if self.admitted:
            return min(reversed(self.windows), key=lambda window: window.remaining)
        refusing = [window for window in self.windows if window.remaining == 0]
        if self.banned:
            minute = self.windows[0]
            refusing.append(Window("ban", minute.limit, minute.limit, 0, self.banned_until))
        return max(refusing, key=lambda window: (window.ends_at, window.length))

    @property
    def retry_after(self) -> int:
        """Whole seconds, at least 1, after which a refused request is admitted (D24)."""
        return max(1, self.seconds_left(self.reported))

    @property
    def refusal(self) -> ErrorCode:
        if self.banned:
            return ErrorCode.API_KEY_BANNED
        if self.reported.length == DAY:
            return ErrorCode.DAILY_QUOTA_EXCEEDED
        return ErrorCode.RATE_LIMIT_EXCEEDED

    def seconds_left(self, window: Window) -> int:
        """Whole seconds, rounded up, until a window resets."""
        return max(0, -(-(window.ends_at - self.now) // SECOND))


def account_windows(limits: Limits, counters: Counters, now: int) -> tuple[Window, Window]:
    minute_ends, minute_used, day, day_used = counters
    if minute_ends <= now:  # No minute runs: the next admitted request starts one.
        minute_ends, minute_used = now + MINUTE, 0
    return (
        Window("minute", limits.per_minute, minute_used, MINUTE, minute_ends),
        Window("day", limits.per_day, day_used, DAY, (day + 1) * DAY),
    )


def look_verdict(
    windows: tuple[Window, Window], now: int, banned_until: int, *, looks: int, looks_end: int
) -> RateLimitDecision:
    """Return the decision on a request that counts in neither window (D39).

    `looks`: those of the key in the minute that ends at `looks_end`, with this one. One too many is refused
    by this limit, and shows nothing else.
    """
    if looks <= LOOKS_PER_MINUTE:
        return RateLimitDecision(True, windows, now, banned_until)
    return RateLimitDecision(False, (Window("minute", LOOKS_PER_MINUTE, looks, MINUTE, looks_end),), now)


def moment(microseconds: int) -> datetime:
    """Return the time for people and for Django's fields."""
    return datetime.fromtimestamp(microseconds / SECOND, UTC)


def microseconds(moment: datetime) -> int:
    """Return the time in microseconds since the epoch."""
    return round(moment.timestamp() * SECOND)
