"""Faults of connections, and their seeded schedule."""

from __future__ import annotations

import random
from enum import StrEnum
from typing import NamedTuple

FAULTY_SECONDS = 7.0  # Of each cycle; then the service recovers while staff work.
BRIEF = (0.1, 0.5, 1.0, 2.0)  # Seconds.
LONG = (0.5, 1.0, 3.0)  # For faults that look like slowness.
INSTANTANEOUS = (0.0,)
PAUSE = (0.05, 0.3)  # Seconds between two faults.
BACKENDS = ("redis", "postgresql")
TARGETS = (("redis",), ("postgresql",), BACKENDS)  # Of one cycle after another.


class FaultKind(StrEnum):
    """What can happen to connections."""

    AT_ACCEPT = "close at accept"
    AFTER_GREETING = "close after the greeting"
    AT_A_BYTE = "close at a random byte"
    DELAY = "delay"
    FREEZE = "freeze"
    BLACK_HOLE = "black hole"
    RESET = "reset"
    FAILOVER = "planned failover"


SLOW = {FaultKind.DELAY, FaultKind.FREEZE, FaultKind.BLACK_HOLE}


class Fault(NamedTuple):
    """A temporary fault of one backend."""

    pause: float  # Seconds before it.
    backend: str
    kind: FaultKind
    seconds: float
    seed: int  # Of its effect on each connection.

    def __str__(self) -> str:
        return f"{self.backend}: {self.kind} for {self.seconds:.2g} s"


class Choice(NamedTuple):
    backends: frozenset[str] = frozenset(BACKENDS)
    kinds: frozenset[FaultKind] = frozenset(FaultKind)


def plan(seed: int, cycle: int, choice: Choice) -> list[list[Fault]]:
    """Schedule the faults of a cycle, one list for each backend that it affects."""
    chance = random.Random(f"{seed} {cycle}")
    targets = [backends for backends in TARGETS if choice.backends.issuperset(backends)]
    return [plan_backend(chance, backend, choice) for backend in targets[(seed + cycle) % len(targets)]]


def plan_backend(chance: random.Random, backend: str, choice: Choice) -> list[Fault]:
    """Schedule one backend's faults: each kind occurs once before any is repeated."""
    possible = [
        kind
        for kind in FaultKind
        if kind in choice.kinds and (backend == "redis" or kind is not FaultKind.FAILOVER)
    ]
    faults: list[Fault] = []
    remaining: list[FaultKind] = []
    seconds_left = FAULTY_SECONDS
    while seconds_left > 0 and possible:
        if not remaining:
            remaining = chance.sample(possible, len(possible))
        kind = remaining.pop()
        durations = INSTANTANEOUS if kind is FaultKind.FAILOVER else LONG if kind in SLOW else BRIEF
        pause, seconds = chance.uniform(*PAUSE), min(seconds_left, chance.choice(durations))
        faults.append(Fault(pause, backend, kind, seconds, chance.getrandbits(32)))
        seconds_left -= pause + seconds
    return faults
