"""Regression tests in virtual time for faults that the simulation found, with fixed events."""

from contextlib import nullcontext

from tests.simulation.counting import CountingScenario
from tests.simulation.faults import planted
from tests.simulation.reads import READ, ReaderScenario
from tests.simulation.scenario import Request, Scenario

TRIES = 60


class BusyReader(ReaderScenario):
    """A busy loop with PostgreSQL."""

    def _choose(self) -> None:
        self.is_calm = False
        self.loop.iteration_seconds = 0.002
        self.network.closes_at_accept = 0.8
        self.network.closes_within = 0.01


class BusyCounter(CountingScenario):
    """A busy loop with PostgreSQL that closes connections after accepting them."""

    def _choose(self) -> None:
        self.is_calm = False
        self.loop.iteration_seconds = 0.002
        self.network.closes_at_accept = 0.8
        self.network.closes_within = 0.01


class StalledProcess(CountingScenario):
    """A process that is repeatedly stopped for longer than the timeout."""

    def _choose(self) -> None:
        self.is_calm = True
        self.server.slow = 0.5
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


def test_count_on_a_connection_that_closes_after_accepting_is_not_repeated() -> None:
    assert broken(BusyCounter) == []
    assert broken(BusyCounter, "a request whose reply was lost is counted again")


def test_postgresql_that_closes_after_accepting_fails_no_request() -> None:
    assert broken(BusyReader) == []
    assert broken(BusyReader, "a request to a closed connection joins its queue")


def test_stopped_process_does_not_blame_postgresql() -> None:
    assert broken(StalledProcess) == []
    assert broken(StalledProcess, "a reply times out by the clock although the process was stopped")


def test_server_that_deallocates_statements_fails_no_request() -> None:
    assert broken(DeallocatingServer) == []
    assert broken(DeallocatingServer, "a statement is prepared again although another request has done so")
