"""Virtual time, what happens in it beside the process, and the seed that decides about all chances."""

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

EPOCH = 1_800_000_000  # Of the servers' clocks, in Unix time; so near midnight that some seeds meet it.


class ViolationError(AssertionError):
    """A rule was broken: what a seed is searched for."""


class World:
    """The clock, and the events of everybody but the process: packets that arrive, servers that act."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now = 1.0  # Seconds.
        self.stalled = 0.0  # Seconds in all in which the process stood still.
        self.trace: list[tuple[Any, ...]] = []
        self.violations: list[str] = []
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = count()

    def note(self, *what: Any) -> None:
        """Keep a step for whoever replays the seed."""
        self.trace.append((self.now, *what))

    def violate(self, rule: str) -> None:
        """Note a broken rule; the seed has failed."""
        self.note("VIOLATION", rule)
        self.violations.append(rule)

    def at(self, when: float, act: Callable[..., object], *args: Any) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), act, args))

    def after(self, seconds: float, act: Callable[..., object], *args: Any) -> None:
        self.at(self.now + seconds, act, *args)

    @property
    def next_at(self) -> float:
        """When the next event happens; infinity if none will."""
        return self._events[0][0] if self._events else float("inf")

    def advance(self, to: float) -> None:
        """Let everything happen up to this time, in order."""
        events = self._events
        while events and events[0][0] <= to:
            when, _, act, args = heapq.heappop(events)
            self.now = max(self.now, when)
            act(*args)
        self.now = max(self.now, to)

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability
