"""Requests that count, each in a transaction of its own, on connections that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from petstore.db.event_loop.connection import MAX_ATTEMPTS
from petstore.db.event_loop.connector import get_connect_timeout
from petstore.db.event_loop.counting import BLOCKED_SECONDS, CountingConnections
from petstore.db.event_loop.libpq import Statement
from petstore.db.event_loop.shared_connection import SharedConnection
from petstore.db.monitor import get_response_timeout
from tests.simulation.postgresql import ALIAS
from tests.simulation.reads import FAIL, QUEUE_TIMEOUT, WRITE_ERRORS, PostgresqlScenario, get_error
from tests.simulation.scenario import Request, response_bound

COUNT = Statement(b"count", b"COUNT $1 $2")
LATE_COUNT = Statement(b"late count", b"LATE $1")
CANCELED_COUNT = Statement(b"canceled count", b"CANCEL $1")
GROUPS = 4
LOCKABLE = b"0"  # The first.
LONGEST_LOCK = 9.0  # Seconds.


class CountingScenario(PostgresqlScenario):
    """Each request counts once in its group, whose lock others may hold."""

    def prepare(self) -> None:
        super().prepare()
        if self.is_calm:  # Replies arrive just in time.
            self.server.slow = self.chance.choice((0.0, 0.3))
            self.server.slowest = get_response_timeout(ALIAS) - 0.05
        self.burst = self.chance.choice((3, 12, 24))
        self.counting = CountingConnections()
        self.acknowledged: list[bytes] = []
        self.was_locked = False
        self.blocked_at = float("-inf")  # The latest failure to lock in time.
        self.sessions: defaultdict[bool, set[int]] = defaultdict(set)  # By whether the group was blocked.

    def requests(self) -> list[Request]:
        return [self._request(number) for number in range(self.chance.randrange(6, 30))]

    def last_request(self, number: int) -> Request:
        return self._count(9000 + number)

    def _request(self, number: int) -> Request:
        if self.chance.random() < 0.1:
            statement = self.chance.choice((FAIL, LATE_COUNT, CANCELED_COUNT))
            values = [] if statement is FAIL else [number]
            group = 1 + number % (GROUPS - 1)
            return Request(
                f"fails {number}",
                lambda: get_error(lambda: self.counting.fetch_rows(group, statement, values)),
                lambda error: None,
                (OperationalError,),
                self.bound,
            )
        return self._count(number)

    def _count(self, number: int) -> Request:
        group = self.chance.choice((0, 0, 0, *range(1, GROUPS)))
        token = b"%d" % number

        def count() -> Any:
            was_blocked = self._is_blocked(group)
            try:
                rows = self.counting.fetch_rows(group, COUNT, [number, group])
            except OperationalError as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
                self.blocked_at = self.world.now
                return "locked" if group == 0 and self.was_locked else "timed out without a lock"
            self.acknowledged.append(token)
            if was_blocked == self._is_blocked(group):
                self.sessions[was_blocked].add(self.server.written_by[token])
            return rows

        return Request(
            f"counts {number} of group {group}",
            count,
            lambda result: None if result in ([(token,)], "locked") else f"got {result}",
            WRITE_ERRORS,
            self.bound,
        )

    def _is_blocked(self, group: int) -> bool:
        return group == 0 and self.world.now < self.blocked_at + BLOCKED_SECONDS

    @property
    def bound(self) -> float:
        """The time in line, and attempts that connect, prepare and execute, of what was not executed."""
        return QUEUE_TIMEOUT / 1000 + MAX_ATTEMPTS * (
            response_bound(get_connect_timeout(ALIAS)) + 2 * response_bound(get_response_timeout(ALIAS))
        )

    def calm_actions(self) -> list[Callable[[], object]]:
        return [*super().calm_actions(), self._lock]

    def _lock(self) -> None:
        self.was_locked = True
        self.server.lock(LOCKABLE, self.chance.uniform(0, LONGEST_LOCK))

    def heal(self) -> None:
        super().heal()
        self.server.locked_until.clear()

    def start_last(self) -> None:
        self.was_locked = False

    def check_end(self) -> None:
        committed = self.server.committed
        for token, count in committed.items():
            if count > 1:
                self.world.violate(f"{token!r} was counted {count} times.")
        for token in self.acknowledged:
            if not committed[token]:
                self.world.violate(f"{token!r} was acknowledged but not counted.")
        if self.sessions[True] & self.sessions[False]:
            self.world.violate("A blocked group shares the connection of another group.")
        shared = [one._connection for one in self._connections() if one._connection is not None]
        usable = [one for one in shared if one.error is None]
        if len(self.network.open) != len(usable):
            self.world.violate(f"{len(self.network.open)} sockets are open, {len(usable)} have an owner.")
        if any(one._queue for one in usable):
            self.world.violate("A place in the queue outlives its owner.")

    def _connections(self) -> list[SharedConnection]:
        return [self.counting._shared, self.counting._for_blocked]

    def close(self) -> None:
        for shared in self._connections():
            shared.close()
