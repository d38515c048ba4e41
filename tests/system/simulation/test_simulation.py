"""The engine on virtual time against an adversary: see tests/system/simulation/.

Each asker gets its own answer or an error of the agreed kind, and gets it in time. No place in a row, no
socket, task, timer, thread or transaction outlives its owner. Nothing is committed twice, or in part, or
acknowledged and missing, or admitted over a limit. What is well is never blamed; and once all is well, all
succeeds.
"""

import pytest

from tests.support.thorough import times
from tests.system.simulation.faults import FAULTS, planted
from tests.system.simulation.kinds import KINDS, scenario

SEEDS = times(10_000, 1_600)
BATCHES = 8
SEEDS_TO_FIND = 300


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of outages would be logged."""
    caplog.set_level("CRITICAL")


def first_broken(seeds: range, kind: str | None = None) -> str | None:
    """Return the first seed that breaks a rule, and which."""
    for seed in seeds:
        if broken := scenario(seed, kind).run():
            options = f"--seed {seed}{f' --kind {kind}' if kind else ''}"
            return f"python -m tests.system.simulation {options}: {broken[0]}"
    return None


@pytest.mark.parametrize("batch", range(BATCHES))
def test_each_request_gets_its_own_response_in_time_and_nothing_leaks(
    batch: int,
) -> None:
    size = SEEDS // BATCHES
    assert first_broken(range(batch * size, (batch + 1) * size)) is None


@pytest.mark.parametrize(
    ("kind", "fault"),
    [(kind, name) for name, fault in FAULTS.items() for kind in fault.found_in],
)
def test_planted_fault_is_found(kind: str, fault: str) -> None:
    with planted(fault):
        found = first_broken(range(SEEDS_TO_FIND), kind)
    assert found is not None


def test_seed_replays_step_by_step() -> None:
    for kind in KINDS:
        first, second = scenario(17, kind), scenario(17, kind)
        first.run()
        second.run()
        assert repr(first.world.trace) == repr(second.world.trace)
        assert len(first.world.trace) > 10
