"""Faults of connections, and their seeded schedule."""

from __future__ import annotations

import random
from enum import StrEnum
from typing import NamedTuple

PAUSE = (0.05, 0.3)  # Seconds between two faults.


class Durations(NamedTuple):
    """Seconds of faults."""

    total: float  # In each cycle; then the service recovers while staff work.
    brief: tuple[float, ...]
    slow: tuple[float, ...]  # Of faults that look like slowness.


DURATIONS = Durations(7.0, (0.1, 0.5, 1.0, 2.0), (0.5, 1.0, 3.0))
SHORT_DURATIONS = Durations(5.0, (0.1, 0.5), (0.5, 1.5))


class FaultKind(StrEnum):
    """What can happen to connections."""

    AT_ACCEPT = "close at accept"
    AFTER_GREETING = "close after the greeting"
    AT_A_BYTE = "close at a random byte"
    DELAY = "delay"
    FREEZE = "freeze"
    BLACK_HOLE = "black hole"
    RESET = "reset"


SLOW = {FaultKind.DELAY, FaultKind.FREEZE, FaultKind.BLACK_HOLE}


class Fault(NamedTuple):
    """A temporary fault."""

    pause: float  # Seconds before it.
    kind: FaultKind
    seconds: float
    seed: int  # Of its effect on each connection.


def plan(seed: int, cycle: int, durations: Durations) -> list[Fault]:
    """Schedule the faults of a cycle: each kind occurs once before any is repeated."""
    chance = random.Random(f"{seed} {cycle}")
    faults: list[Fault] = []
    remaining: list[FaultKind] = []
    seconds_left = durations.total
    while seconds_left > 0:
        if not remaining:
            remaining = chance.sample(sorted(FaultKind), len(FaultKind))
        kind = remaining.pop()
        choices = durations.slow if kind in SLOW else durations.brief
        pause, seconds = chance.uniform(*PAUSE), min(seconds_left, chance.choice(choices))
        faults.append(Fault(pause, kind, seconds, chance.getrandbits(32)))
        seconds_left -= pause + seconds
    return faults
