"""Virtual time, the events outside the process, and the seeded random numbers."""

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

EPOCH = 1_800_000_000  # Start of the servers' clocks, in Unix time.


class ViolationError(AssertionError):
    """An invariant was violated."""


class World:
    """The clock, and the events of the network and the servers."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now = 1.0  # Seconds.
        self.stalled = 0.0  # Total seconds of stalls.
        self.trace: list[tuple[Any, ...]] = []
        self.violations: list[str] = []
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = count()

    def note(self, *what: Any) -> None:
        """Record a step for the replay of the seed."""
        self.trace.append((self.now, *what))

    def violate(self, rule: str) -> None:
        """Record a violation, which fails the seed."""
        self.note("VIOLATION", rule)
        self.violations.append(rule)

    def at(self, when: float, act: Callable[..., object], *args: Any) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), act, args))

    def after(self, seconds: float, act: Callable[..., object], *args: Any) -> None:
        self.at(self.now + seconds, act, *args)

    @property
    def next_at(self) -> float:
        """The time of the next event, or infinity."""
        return self._events[0][0] if self._events else float("inf")

    def advance(self, to: float) -> None:
        """Run all events up to this time, in order."""
        events = self._events
        while events and events[0][0] <= to:
            when, _, act, args = heapq.heappop(events)
            self.now = max(self.now, when)
            act(*args)
        self.now = max(self.now, to)

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability
