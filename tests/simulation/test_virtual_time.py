"""Regression tests in virtual time for faults that the simulation found, with fixed events."""

from contextlib import nullcontext
from typing import Any

import pytest

from tests.simulation.faults import planted
from tests.simulation.kinds import scenario
from tests.simulation.pipes import LIMIT, RedisScenario
from tests.simulation.reads import READ, ReaderScenario
from tests.simulation.scenario import Request, Scenario

TRIES = 60


class BusyLoop(RedisScenario):
    """Iterations of a millisecond, and a Redis that closes 2 to 3 ms after it accepts."""

    path = ""

    def make_pipe(self, url: str) -> Any:
        self.is_calm = False
        return super().make_pipe(f"redis://redis:6379{self.path}")

    def _choose(self) -> None:
        self.redis.too_many = self.redis.node.slow = 0.0
        self.loop.iteration_seconds = 0.002
        self.network.usual_latency = 0.0005
        self.network.closes_at_accept = 0.8
        self.network.closes_within = 0.004


class BusyLoopInDatabase(BusyLoop):
    """A busy loop, and a Redis connection that starts with a SELECT."""

    path = "/9"


class BusyReader(ReaderScenario):
    """A busy loop with PostgreSQL."""

    def _choose(self) -> None:
        self.is_calm = False
        self.loop.iteration_seconds = 0.002
        self.network.closes_at_accept = 0.8
        self.network.closes_within = 0.01


class StalledProcess(RedisScenario):
    """A process that is repeatedly stopped for longer than the timeout."""

    def _choose(self) -> None:
        self.is_calm = True
        self.redis.too_many = 0.0
        self.redis.node.slow, self.redis.node.slowest = 0.5, LIMIT / 2
        self.loop.stalls, self.loop.longest_stall = 0.1, 3.0


class DeallocatingServer(ReaderScenario):
    """A server that repeatedly deallocates its statements while several reads are pending."""

    def _choose(self) -> None:
        self.is_calm = False
        self.server.slow = 0.0
        self.network.usual_latency = 0.1
        self.loop.iteration_seconds = 0.001
        self._actions, self._rate = [self.server.deallocate], 0.05

    def _request(self, number: int) -> Request:
        return self._read(number, READ)


def broken(kind: type[Scenario], fault: str = "") -> list[str]:
    """List the violations of some seeds, with a planted fault or without."""
    with planted(fault) if fault else nullcontext():
        return [rule for seed in range(TRIES) for rule in kind(seed).run()]


@pytest.mark.parametrize("kind", [BusyLoop, BusyLoopInDatabase])
def test_redis_that_closes_after_accepting_mixes_up_no_replies(kind: type[Scenario]) -> None:
    assert broken(kind) == []
    assert broken(kind, "a new connection inherits the queue of a closed one")


def test_postgresql_that_closes_after_accepting_fails_no_request() -> None:
    assert broken(BusyReader) == []
    assert broken(BusyReader, "a request to a closed connection joins its queue")


def test_stopped_process_does_not_blame_redis() -> None:
    assert broken(StalledProcess) == []
    assert broken(StalledProcess, "a reply times out by the clock although the process was stopped")


def test_server_that_deallocates_statements_fails_no_request() -> None:
    assert broken(DeallocatingServer) == []
    assert broken(DeallocatingServer, "a statement is prepared again although another request has done so")


def test_return_to_redis_uses_no_server_that_became_a_replica() -> None:
    seed = 3327  # Redis fails over during a fallback that a stall caused.
    assert scenario(seed, "quota").run() == []
    with planted("a server that became a replica during the fallback is used again at first"):
        assert scenario(seed, "quota").run()
