"""The engine in virtual time against an adversary: see README.md beside this file.

Each request gets its own response or a documented error, in time. No place in a queue, socket, task, timer,
thread or transaction leaks. No write is committed twice or in part, or lost after its confirmation. No
request is counted twice, and a blocked group delays no other. A healthy server is never treated as failed,
and all requests succeed after the recovery.

A failure prints the steps of its seed. SIMULATION_SEEDS=10000-60000 runs other seeds.
"""

import os

import pytest

from tests.simulation.counting import CountingScenario
from tests.simulation.faults import FAULTS, planted
from tests.simulation.reads import ReaderScenario, WriterScenario
from tests.simulation.scenario import Scenario
from tests.support.thorough import times

FIRST, END = map(int, os.environ.get("SIMULATION_SEEDS", f"0-{times(5_000, 800)}").split("-"))
MAX_SEEDS_TO_FIND = 3_000
KINDS: dict[str, type[Scenario]] = {
    "counting": CountingScenario,
    "reads": ReaderScenario,
    "writes": WriterScenario,
}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Suppress the logs of thousands of outages."""
    caplog.set_level("CRITICAL")


def scenario(seed: int, kind: str | None = None) -> Scenario:
    kinds = list(KINDS)
    return KINDS[kind or kinds[seed % len(kinds)]](seed)


def first_broken(seeds: range, kind: str | None = None) -> str | None:
    """Describe the first violation, and print what led to it."""
    for seed in seeds:
        chosen = scenario(seed, kind)
        if broken := chosen.run():
            for when, *what in chosen.world.trace:
                print(f"{when:10.4f}", *what)
            return f"Seed {seed}, {type(chosen).__name__}: {broken[0]}"
    return None


def test_each_request_gets_its_own_response_in_time_and_nothing_leaks() -> None:
    assert first_broken(range(FIRST, END)) is None


@pytest.mark.parametrize(
    ("kind", "fault"), [(kind, name) for name, fault in FAULTS.items() for kind in fault.found_in]
)
def test_planted_fault_is_found(kind: str, fault: str) -> None:
    with planted(fault):
        found = first_broken(range(MAX_SEEDS_TO_FIND), kind)
    assert found is not None


def test_seed_replays_step_by_step() -> None:
    for kind in KINDS:
        first, second = scenario(17, kind), scenario(17, kind)
        first.run()
        second.run()
        assert repr(first.world.trace) == repr(second.world.trace)
        assert len(first.world.trace) > 10
