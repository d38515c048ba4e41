"""What became of each request of a load, and what can be said of many."""

from __future__ import annotations

import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

SHORT_SECONDS = 3  # So many seconds without a failure end a disturbance.


class Failure(IntEnum):
    """What a request can end with instead of an HTTP status; the numbers are none."""

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
    Failure.SILENT: "no answer in time",
    Failure.UNSENT: "not sent, no connection free",
    Failure.GARBLED: "not HTTP",
    Failure.SHED: "503 with Retry-After",
}


class Row(NamedTuple):
    """One request."""

    due: float  # Seconds since the load began, when it was to be sent.
    took: float  # Seconds from then to the end of the answer, or to the failure.
    operation: int  # Its place in the list of operations.
    outcome: int  # An HTTP status, or a Failure.


class Record:
    """All requests of a load, as columns: millions fit."""

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

    def between(self, begin: float, end: float) -> Record:
        """Return the requests that were due in these seconds, `end` not among them."""
        return Record(row for row in self if begin <= row.due < end)

    def of(self, operation: int) -> Record:
        """Return the requests of an operation; those that were never sent are of none."""
        return Record(row for row in self if row.operation == operation)

    def good(self) -> int:
        return sum(map(succeeded, self.outcome))

    def kinds(self) -> Counter[str]:
        return Counter(kind(outcome) for outcome in self.outcome if not succeeded(outcome))

    def errors(self) -> int:
        """Count the answers of 5xx that shed nothing: the service's own fault."""
        return sum(500 <= outcome <= 599 for outcome in self.outcome)

    def milliseconds(self, *shares: float) -> tuple[float, ...]:
        """Return the times, at these shares of one, of the requests that succeeded."""
        times = sorted(
            took for took, outcome in zip(self.took, self.outcome, strict=True) if succeeded(outcome)
        )
        return tuple(1000 * percentile(times, share) for share in shares)


def succeeded(outcome: int) -> bool:
    return 200 <= outcome <= 299


def kind(outcome: int) -> str:
    return KINDS[Failure(outcome)] if outcome < 100 else str(outcome)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values don't exceed; NaN for none."""
    if not ordered:
        return float("nan")
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def finished_a_second(record: Record, begin: float, end: float) -> float:
    """Return how many requests a second were answered well in these seconds, whenever they were due."""
    done = sum(succeeded(row.outcome) and begin <= row.due + row.took < end for row in record)
    return done / (end - begin)


def settled_seconds(record: Record, end: float, slow: float) -> float | None:
    """Return how long after `end` the first second begins in which all succeeded within `slow` seconds.

    None if there is none. What still waits after an overload delays all that comes; once there was such a
    second, nothing of it is left.
    """
    due = [row.due for row in record if row.due >= end]
    bad = [row.due for row in record if row.due >= end and (row.took > slow or not succeeded(row.outcome))]
    for moment, following in pairwise([end, *sorted(bad), max(due, default=end)]):
        if following - moment >= 1:
            return moment - end
    return None


def recovery_seconds(record: Record, end: float) -> float | None:
    """Return how long after `end` a request that was due failed.

    None if the record has no quiet seconds after it: it says nothing of recovery then.
    """
    bad = [row.due for row in record if row.due >= end and not succeeded(row.outcome)]
    last = max(bad, default=end)
    quiet = max(record.due, default=end) - last
    return last - end if quiet >= SHORT_SECONDS else None


def growth(values: Sequence[float]) -> float:
    """Return what the last third holds more than the first, by their medians.

    What came and went isn't in it. NaN for fewer than three values.
    """
    third = len(values) // 3
    if not third:
        return float("nan")
    return statistics.median(values[-third:]) - statistics.median(values[:third])
