"""What became of each request of a load, and what can be said of many."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
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
        """Note a request."""
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
        """Return how many succeeded."""
        return sum(map(succeeded, self.outcome))

    def kinds(self) -> Counter[str]:
        """Count the failures by kind."""
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
    """Say whether an outcome is what the client wanted."""
    return 200 <= outcome <= 299


def kind(outcome: int) -> str:
    """Name an outcome."""
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


def disturbed(row: Row, slow: float) -> bool:
    """Say whether a request failed, or took more than `slow` seconds."""
    return row.took > slow or not succeeded(row.outcome)


def recovery_seconds(record: Record, end: float, slow: float = float("inf")) -> float | None:
    """Return how long after `end` a request that was due failed, or took more than `slow` seconds.

    None if the record has no quiet seconds after it: it says nothing of recovery then.
    """
    bad = [row.due for row in record if row.due >= end and disturbed(row, slow)]
    last = max(bad, default=end)
    quiet = max(record.due, default=end) - last
    return last - end if quiet >= SHORT_SECONDS else None


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return how much the second number grows with each one of the first, by least squares."""
    count = len(points)
    middle_x = sum(x for x, _ in points) / count
    middle_y = sum(y for _, y in points) / count
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0


def growth(points: Sequence[tuple[float, float]]) -> float:
    """Return how much the fitted line gains from the first point to the last.

    NaN for fewer than three points: any line fits them.
    """
    if len(points) < 3:
        return float("nan")
    return slope(points) * (points[-1][0] - points[0][0])
