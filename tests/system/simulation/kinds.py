"""The kinds of scenario, and which one a seed is."""

from tests.system.simulation.pipes import RedisScenario
from tests.system.simulation.quota import QuotaScenario
from tests.system.simulation.reads import ReaderScenario, WriterScenario
from tests.system.simulation.scenario import Scenario

KINDS: dict[str, type[Scenario]] = {
    "quota": QuotaScenario,
    "redis": RedisScenario,
    "reads": ReaderScenario,
    "writes": WriterScenario,
}


# How often each comes: what takes longer comes less often.
TURN = ("redis", "reads", "writes", "redis", "quota", "reads", "redis")


def scenario(seed: int, kind: str | None = None) -> Scenario:
    return KINDS[kind or TURN[seed % len(TURN)]](seed)
