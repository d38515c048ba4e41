"""The kinds of scenario, and the choice by seed."""

from tests.simulation.pipes import RedisScenario
from tests.simulation.quota import QuotaScenario
from tests.simulation.reads import ReaderScenario, WriterScenario
from tests.simulation.scenario import Scenario

KINDS: dict[str, type[Scenario]] = {
    "quota": QuotaScenario,
    "redis": RedisScenario,
    "reads": ReaderScenario,
    "writes": WriterScenario,
}


# Slow kinds are less frequent.
ROTATION = ("redis", "reads", "writes", "redis", "quota", "reads", "redis")


def scenario(seed: int, kind: str | None = None) -> Scenario:
    return KINDS[kind or ROTATION[seed % len(ROTATION)]](seed)
