"""The outcome of each request of a load, and statistics of many."""

from __future__ import annotations

import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

QUIET_SECONDS = 3  # Seconds without a failure that show a recovery.


class Failure(IntEnum):
    """An outcome without a usual response; the numbers are no HTTP statuses."""

    REFUSED = 1
    UNREACHED = 2
    LOST = 3
    SILENT = 4
    UNSENT = 5
    GARBLED = 6
    SHED = 7


KINDS = {
    Failure.REFUSED: "connection refused",
    Failure.UNREACHED: "no connection in time",
    Failure.LOST: "connection lost",
    Failure.SILENT: "no response in time",
    Failure.UNSENT: "not sent, no connection free",
    Failure.GARBLED: "not HTTP",
    Failure.SHED: "503 with Retry-After",
}


class Row(NamedTuple):
    """One request."""

    due: float  # The due time, in seconds since the load began.
    took: float  # Seconds from then to the end of the response, or to the failure.
    operation: int  # Its index in the list of operations.
    outcome: int  # An HTTP status, or a Failure.


class Record:
    """All requests of a load, as columns, since there are millions."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.due = array("d")
        self.took = array("d")
        self.operation = array("B")
        self.outcome = array("H")
        for row in rows:
            self.add(*row)

    def __len__(self) -> int:
        return len(self.due)

    def __iter__(self) -> Iterator[Row]:
        return map(Row._make, zip(self.due, self.took, self.operation, self.outcome, strict=True))

    def add(self, due: float, took: float, operation: int, outcome: int) -> None:
        self.due.append(due)
        self.took.append(took)
        self.operation.append(operation)
        self.outcome.append(outcome)

    def between(self, start: float, end: float) -> Record:
        """The requests that were due in these seconds, excluding `end`."""
        return Record(row for row in self if start <= row.due < end)

    def of(self, operation: int) -> Record:
        """The requests of an operation; those that were never sent belong to none."""
        return Record(row for row in self if row.operation == operation)

    def good(self) -> int:
        return sum(map(succeeded, self.outcome))

    def failures(self) -> Counter[str]:
        """Count the failures by kind."""
        return Counter(
            KINDS[Failure(outcome)] if outcome < 100 else str(outcome)
            for outcome in self.outcome
            if not succeeded(outcome)
        )

    def errors(self) -> int:
        """Count the 5xx responses that are not load shedding: the service's own failures."""
        return sum(500 <= outcome <= 599 for outcome in self.outcome)

    def milliseconds(self, *shares: float) -> tuple[float, ...]:
        """The quantiles, as fractions of one, of the successful requests' times."""
        times = sorted(
            took for took, outcome in zip(self.took, self.outcome, strict=True) if succeeded(outcome)
        )
        return tuple(1000 * percentile(times, share) for share in shares)


def succeeded(outcome: int) -> bool:
    return 200 <= outcome <= 299


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that this share of the values do not exceed; NaN without values."""
    if not ordered:
        return float("nan")
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def throughput(record: Record, start: float, end: float) -> float:
    """Successful responses per second in these seconds, independent of the due time."""
    done = sum(succeeded(row.outcome) and start <= row.due + row.took < end for row in record)
    return done / (end - start)


def settled_seconds(record: Record, end: float, slow: float) -> float | None:
    """How long after `end` the first second starts in which all succeeded within `slow` seconds.

    None if there is none. The backlog of an overload delays all later requests until it is gone.
    """
    due = [row.due for row in record if row.due >= end]
    bad = [row.due for row in record if row.due >= end and (row.took > slow or not succeeded(row.outcome))]
    for start, following in pairwise([end, *sorted(bad), max(due, default=end)]):
        if following - start >= 1:
            return start - end
    return None


def recovery_seconds(record: Record, end: float) -> float | None:
    """How long after `end` the last failed request was due.

    None if the record has no quiet seconds after it, and so shows no recovery.
    """
    bad = [row.due for row in record if row.due >= end and not succeeded(row.outcome)]
    last = max(bad, default=end)
    quiet = max(record.due, default=end) - last
    return last - end if quiet >= QUIET_SECONDS else None


def growth(values: Sequence[float]) -> float:
    """How much larger the median of the last third is than that of the first.

    Temporary growth is excluded. NaN for fewer than three values.
    """
    third = len(values) // 3
    if not third:
        return float("nan")
    return statistics.median(values[-third:]) - statistics.median(values[:third])
