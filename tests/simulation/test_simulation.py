"""The engine in virtual time against an adversary: see README.md beside this file.

Each request gets its own response or a documented error, in time. No place in a queue, socket, task, timer,
thread or transaction leaks. No write is committed twice or in part, or lost after its confirmation. No
request is counted twice, and a blocked group delays no other. A healthy server is never treated as failed,
and all requests succeed after the recovery.
"""

import pytest

from tests.simulation.faults import FAULTS, planted
from tests.simulation.kinds import KINDS, scenario
from tests.support.thorough import times

SEEDS = times(5_000, 800)
BATCHES = 4
MAX_SEEDS_TO_FIND = 3_000


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Suppress the logs of thousands of outages."""
    caplog.set_level("CRITICAL")


def first_broken(seeds: range, kind: str | None = None) -> str | None:
    """Describe the first violation."""
    for seed in seeds:
        if broken := scenario(seed, kind).run():
            options = f"--seed {seed}{f' --kind {kind}' if kind else ''}"
            return f"python -m tests.simulation {options}: {broken[0]}"
    return None


@pytest.mark.parametrize("batch", range(BATCHES))
def test_each_request_gets_its_own_response_in_time_and_nothing_leaks(batch: int) -> None:
    size = SEEDS // BATCHES
    assert first_broken(range(batch * size, (batch + 1) * size)) is None


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
