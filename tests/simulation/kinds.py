"""The kinds of scenario, and the choice by seed."""

from tests.simulation.counting import CountingScenario
from tests.simulation.reads import ReaderScenario, WriterScenario
from tests.simulation.scenario import Scenario

KINDS: dict[str, type[Scenario]] = {
    "counting": CountingScenario,
    "reads": ReaderScenario,
    "writes": WriterScenario,
}


def scenario(seed: int, kind: str | None = None) -> Scenario:
    kinds = list(KINDS)
    return KINDS[kind or kinds[seed % len(kinds)]](seed)
