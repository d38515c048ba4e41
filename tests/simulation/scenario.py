"""One seed: a process on a simulated network, an adversary, requests, and invariants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

from petstore.db.event_loop.connection import PostgresqlConnection
from petstore.db.event_loop.greenlets import QUEUED_TOO_LONG, TICK, RequestTask, timeout_in_ticks
from tests.simulation.loop import Loop
from tests.simulation.network import Network
from tests.simulation.world import ViolationError, World

SLACK = 0.3  # Seconds: slow loop iterations delay ticks.
HANG = 60.0  # Seconds after which a request without a response hangs.


class Request(NamedTuple):
    """A request, the errors it may raise, and its time limit."""

    name: str
    run: Callable[[], Any]
    check: Callable[[Any], str | None]  # Describes a wrong result.
    errors: tuple[type[Exception], ...]
    bound: float  # Seconds without stalls.


class Scenario:
    """A kind of process. Subclasses define its requests and the actions of the adversary."""

    recovery = 2.0  # Seconds after the last fault until all requests succeed.

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.network = Network(self.world)
        self.loop = Loop(self.world, self.network)
        self.chance = self.world.chance
        # Nothing fails, but the process and the network may be slow.
        self.is_calm = self.chance.random() < 0.2
        self.in_progress: dict[int, str] = {}
        self.tasks: list[RequestTask] = []
        self.burst = self.chance.choice((3, 6, 12))  # More requests never arrive together.
        self._rate = 0.0
        self._actions: list[Callable[[], object]] = []

    # --- For subclasses --------------------------------------------------------------------------

    def prepare(self) -> None:
        """Set up on the loop."""

    def requests(self) -> list[Request]:
        """Make the requests in the order of their arrival."""
        raise NotImplementedError

    def last_request(self, number: int) -> Request:
        """Make a request that must succeed after the recovery."""
        raise NotImplementedError

    def actions(self) -> list[Callable[[], object]]:
        """List the adversary's actions, some of which are chosen for each seed."""
        return []

    def calm_actions(self) -> list[Callable[[], object]]:
        """List actions that must not make requests fail."""
        return []

    def observe(self) -> None:
        """Check the process before each loop iteration."""

    def heal(self) -> None:
        """End all faults."""

    def start_last(self) -> None:
        """Prepare for the last requests."""

    def check_end(self) -> None:
        """Check the invariants after the last request."""

    def check_only_connection(self, connection: PostgresqlConnection | None) -> None:
        """Check that only this connection's socket is open, with an empty queue."""
        count = 1 if connection is not None and connection.error is None else 0
        if len(self.network.open) != count:
            self.world.violate(f"{len(self.network.open)} sockets are open, {count} have an owner.")
        if connection is not None and connection._queue:
            self.world.violate("A place in the queue outlives its owner.")

    def close(self) -> None:
        """Close all connections."""

    def patches(self) -> AbstractContextManager[Any]:
        """Patch the engine for the run."""
        return nullcontext()

    # --- Running ---------------------------------------------------------------------------------

    def run(self) -> list[str]:
        with self.patches():
            try:
                self._run()
            except ViolationError as error:
                self.world.violate(str(error))
        return self.world.violations

    def _run(self) -> None:
        in_loop(self.loop, self.prepare)
        self._choose()
        requests = self.requests()
        when = self.world.now
        left_in_burst = 0
        for number, request in enumerate(requests):
            if not left_in_burst:
                left_in_burst = self.chance.randrange(1, self.burst)
                when += self.chance.choice((0.01, 0.3, 0.9)) * self.chance.random()
            left_in_burst -= 1
            when += self.chance.choice((0.0, 0.0, 0.003)) * self.chance.random()
            self.loop.call_at(when, self._start, number, request)
        self.loop.adversary = self._act
        self._run_until_quiet(when)
        self.loop.adversary = self.observe
        self._heal()
        self.loop.call_later(self.recovery - 0.01, self.start_last)
        for number in range(3):
            self.loop.call_later(
                self.recovery + 0.2 * number, self._start, -1 - number, self.last_request(number)
            )
        self._run_until_quiet(self.world.now + self.recovery + 0.6)
        self._check()

    def _choose(self) -> None:
        """Choose the faults of this seed and their frequencies."""
        chance, network, loop = self.chance, self.network, self.loop
        loop.iteration_seconds = chance.choice((0.0, 0.0002, 0.001, 0.002))
        loop.holds_back = chance.choice((0.0, 0.0, 0.2))
        loop.stalls = chance.choice((0.0, 0.0, 0.01, 0.05))
        loop.longest_stall = chance.choice((0.05, 0.8, 3.0))
        network.usual_latency = chance.choice((0.0, 0.0005, 0.002))
        network.splits = chance.choice((0.0, 0.3, 0.8))
        network.delays = chance.choice((0.0, 0.0, 0.1))
        network.longest_delay = 0.02
        possible = self.calm_actions()
        if not self.is_calm:
            network.longest_delay = chance.choice((0.1, 0.5, 1.5))
            network.closes_at_accept = chance.choice((0.0, 0.3, 0.8))
            network.closes_within = chance.choice((0.001, 0.004, 0.02))
            possible += self.actions()
        self._actions = [one for one in possible if chance.random() < 0.5]
        self._rate = chance.choice((0.005, 0.02, 0.08, 0.3))

    def _act(self) -> None:
        self.observe()
        if self._actions and self.chance.random() < self._rate:
            self.chance.choice(self._actions)()

    def _start(self, number: int, request: Request) -> None:
        """Start a request in a greenlet, like the server."""
        self.in_progress[number] = request.name
        started_at, stalled = self.world.now, self.world.stalled
        self.world.note("request", number, request.name)

        def run() -> None:
            try:
                run_and_check()
            finally:
                del self.in_progress[number]

        def run_and_check() -> None:
            wrong: str | None = None
            try:
                result = request.run()
            except request.errors as error:
                self.world.note("failure", number, repr(error))
                if (self.is_calm or number < 0) and QUEUED_TOO_LONG not in str(error):
                    wrong = f"failed without a fault: {error!r}"
            except Exception as error:  # noqa: BLE001
                wrong = f"raised {error!r}"
            else:
                self.world.note("result", number, result)
                wrong = request.check(result)
            seconds = self.world.now - started_at - (self.world.stalled - stalled)
            if seconds > request.bound + SLACK:
                wrong = f"took {seconds:.2f} s, more than {request.bound:.2f}"
            if wrong:
                self.world.violate(f"Request {number}, {request.name}, {wrong}.")

        task = RequestTask(run)
        self.tasks.append(task)
        task.start()

    def _run_until_quiet(self, not_before: float) -> None:
        loop = self.loop
        seconds = not_before - self.world.now + HANG
        loop.run_until(lambda: not self.in_progress and self.world.now > not_before, seconds)
        if self.in_progress:
            raise ViolationError(f"These requests hang: {self.in_progress}")

    def _heal(self) -> None:
        self.world.note("all faults end")
        network, loop = self.network, self.loop
        network.closes_at_accept = network.delays = loop.stalls = loop.iteration_seconds = 0.0
        network.refuses.clear()
        network.swallows.clear()
        for socket in list(network.open.values()):
            socket.thaw()
        self.heal()

    def _check(self) -> None:
        self.check_end()
        in_loop(self.loop, self.close)
        self.loop.run_until(lambda: False, 5.0)
        if self.network.open:
            self.world.violate(f"Sockets outlive their owners: {list(self.network.open)}.")
        if self.loop.live_timers:
            self.world.violate(f"Timers outlive their owners: {len(self.loop.live_timers)}.")
        if any(task.is_active for task in self.tasks):
            self.world.violate("A request never ends.")
        tasks = asyncio.all_tasks(cast(Any, self.loop))
        if tasks:
            self.world.violate(f"Tasks outlive their owners: {tasks}.")
        if self.loop.alive_threads:
            self.world.violate("A thread outlives its work.")


def in_loop(loop: Loop, function: Callable[[], object]) -> None:
    """Call a function as a callback of the loop."""
    asyncio._set_running_loop(cast(Any, loop))
    try:
        function()
    finally:
        asyncio._set_running_loop(None)


def response_bound(limit: float) -> float:
    """The seconds after which a response or a connection has arrived or timed out."""
    return timeout_in_ticks(limit) * TICK
