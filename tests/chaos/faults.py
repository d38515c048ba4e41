"""Faults of connections, and their seeded schedule."""

from __future__ import annotations

import random
from enum import StrEnum
from typing import NamedTuple

FAULTY_SECONDS = 7.0  # Of each cycle; then the service recovers while staff work.
BRIEF = (0.1, 0.5, 1.0, 2.0)  # Seconds.
LONG = (0.5, 1.0, 3.0)  # For faults that look like slowness.
NO_TIME = (0.0,)
PAUSE = (0.05, 0.3)  # Seconds between two faults.
BACKENDS = ("redis", "postgresql")
STRUCK = (("redis",), ("postgresql",), BACKENDS)  # In a cycle, one after another.


class Kind(StrEnum):
    """What a proxy can do to connections."""

    AT_ACCEPT = "close at accept"
    AFTER_GREETING = "close after the greeting"
    AT_A_BYTE = "close at a random byte"
    DELAY = "delay"
    FREEZE = "freeze"
    BLACK_HOLE = "black hole"
    RESET = "reset"
    FAILOVER = "planned failover"


SLOW = {Kind.DELAY, Kind.FREEZE, Kind.BLACK_HOLE}


class Fault(NamedTuple):
    """A temporary fault of one backend."""

    pause: float  # Seconds before it.
    backend: str
    kind: Kind
    seconds: float
    seed: int  # Of its effect on each connection.

    def __str__(self) -> str:
        return f"{self.backend}: {self.kind} for {self.seconds:.2g} s"


class Choice(NamedTuple):
    backends: frozenset[str] = frozenset(BACKENDS)
    kinds: frozenset[Kind] = frozenset(Kind)


def plan(seed: int, cycle: int, choice: Choice) -> list[list[Fault]]:
    """Return the faults of a cycle, for each backend that is struck in it, in their order.

    The seed says which is struck first.
    """
    dice = random.Random(f"{seed} {cycle}")
    struck = [backends for backends in STRUCK if choice.backends.issuperset(backends)]
    return [row(dice, backend, choice) for backend in struck[(seed + cycle) % len(struck)]]


def row(dice: random.Random, backend: str, choice: Choice) -> list[Fault]:
    """Schedule one backend's faults: each kind occurs once before any is repeated."""
    possible = [
        kind for kind in Kind if kind in choice.kinds and (backend == "redis" or kind is not Kind.FAILOVER)
    ]
    faults: list[Fault] = []
    bag: list[Kind] = []
    left = FAULTY_SECONDS
    while left > 0 and possible:
        if not bag:
            bag = dice.sample(possible, len(possible))
        kind = bag.pop()
        lasts = NO_TIME if kind is Kind.FAILOVER else LONG if kind in SLOW else BRIEF
        fault = Fault(
            dice.uniform(*PAUSE), backend, kind, min(left, dice.choice(lasts)), dice.getrandbits(32)
        )
        faults.append(fault)
        left -= fault.pause + fault.seconds
    return faults
