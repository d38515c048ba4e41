"""The history on the status page: the minutes of each hour or day by state."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from django.db.models import Count, F, Q, QuerySet

from petstore.health.models import DAYS, PARTS, State, StatusDay, StatusSample
from petstore.text import format_duration

MINUTES_PER_DAY = 24 * 60
COUNTS = {f"{part}_{state}": Count("pk", Q((part, state))) for part in PARTS for state in State}


class Bar(NamedTuple):
    """The minutes of a part by state in an hour or a day, or in consecutive ones without any sample."""

    label: str
    size: int  # Hours or days.
    no_data: int
    up: int
    degraded: int
    down: int

    @property
    def worst(self) -> str:
        states = {
            "down": self.down,
            "degraded": self.degraded,
            "gaps": self.up and self.no_data,
            "up": self.up,
        }
        return next((state for state, minutes in states.items() if minutes), "no-data")

    def __str__(self) -> str:
        """Describe the share of the minutes with data that were up, rounded down, and the other minutes."""
        if self.worst == "no-data":
            return "No data"
        percent = self.up * 10_000 // (self.up + self.degraded + self.down) / 100
        others = {"down": self.down, "degraded": self.degraded, "without data": self.no_data}
        durations = [f"{format_duration(count)} {label}" for label, count in others.items() if count]
        return ", ".join([f"{percent:g}% up", *durations])


class History(NamedTuple):
    rows: list[list[Bar]]  # Of each part, for each hour or day.

    @property
    def parts(self) -> list[tuple[str, tuple[Bar, ...], Bar]]:
        """The name, the bars and the total of each part."""
        return [
            (name, bars, Bar("", 1, *map(sum, zip(*[bar[2:] for bar in bars], strict=True))))
            for name, bars in zip(PARTS.values(), zip(*self.rows, strict=True), strict=True)
        ]


def count_samples(minutes: range, period: int) -> QuerySet[StatusSample, tuple[int, ...]]:
    """Count the samples of each period of so many minutes, by part and state."""
    samples = StatusSample.objects.filter(minute__gte=minutes.start, minute__lt=minutes.stop)
    return samples.annotate(period=F("minute") / period).values_list("period").annotate(**COUNTS)


def read_hours(now: datetime) -> History:
    """Read the last 24 hours, of which the first and the last are cut off."""
    minute = int(now.timestamp()) // 60  # It may not be sampled yet.
    hours = range(minute - MINUTES_PER_DAY, minute)
    return build_history(count_samples(hours, 60), hours, 60, "%Y-%m-%d %H:%M UTC")


def read_days(now: datetime) -> History:
    """Read the last 90 UTC days, including the current one."""
    minute = int(now.timestamp()) // 60
    days = range((-(-minute // MINUTES_PER_DAY) - DAYS) * MINUTES_PER_DAY, minute)
    rows = [*count_samples(days, MINUTES_PER_DAY), *StatusDay.objects.values_list()]
    return build_history(rows, days, MINUTES_PER_DAY, "%Y-%m-%d")


def build_history(rows: Iterable[tuple[int, ...]], shown: range, period: int, label: str) -> History:
    counts = {number: states for number, *states in rows}

    def build_row(first: int, last: int) -> list[Bar]:
        labels = [f"{datetime.fromtimestamp(one * period * 60, UTC):{label}}" for one in {first, last}]
        length = min(shown.stop, (last + 1) * period) - max(shown.start, first * period)
        states = counts.get(first, [0] * len(COUNTS))
        parts = [states[start : start + len(State)] for start in range(0, len(COUNTS), len(State))]
        span = " to ".join(sorted(labels)), last - first + 1
        return [Bar(*span, length - sum(part), *part) for part in parts]

    built = []
    for has_data, group in groupby(
        range(shown.start // period, -(-shown.stop // period)), counts.__contains__
    ):
        found = list(group)
        spans = zip(found, found, strict=True) if has_data else [(found[0], found[-1])]
        built += [build_row(first, last) for first, last in spans]
    return History(built)
