"""Requests that share one connection to Redis."""

from __future__ import annotations

from collections.abc import Callable

import hiredis
from petstore.event_loop.redis_connection import SharedRedisConnection

from petstore.event_loop.connection import ConnectionFailedError
from tests.simulation.redis import ADDRESS, SimulatedRedis
from tests.simulation.scenario import Request, Scenario, response_bound

LIMIT = 0.5  # Seconds.


class RedisScenario(Scenario):
    """Each request has Redis echo a text of its own."""

    def prepare(self) -> None:
        self.redis = SimulatedRedis(self.world, self.network)
        self.pipe = self.make_pipe(
            f"redis://{self.chance.choice(('', ':secret@'))}{ADDRESS}{self.chance.choice(('', '/0', '/9'))}"
        )
        self.redis.node.slow = self.chance.choice((0.0, 0.3))
        self.redis.node.slowest = LIMIT - 0.05 if self.is_calm else 2 * LIMIT
        if not self.is_calm:
            self.redis.too_many = self.chance.choice((0.0, 0.0, 0.5))

    def make_pipe(self, url: str) -> SharedRedisConnection:
        """Make the connection to test."""
        return SharedRedisConnection(url, LIMIT)

    def requests(self) -> list[Request]:
        return [self.last_request(number) for number in range(self.chance.randrange(4, 30))]

    def last_request(self, number: int) -> Request:
        text = f"text {number} {self.chance.random()}".encode()
        return Request(
            text.decode(),
            lambda: self.pipe.get_connection().call("ECHO", text),
            lambda result: None if result == text else f"got {result!r}",
            (ConnectionFailedError, hiredis.ReplyError),  # Redis may say that it has too many clients.
            2 * response_bound(LIMIT),
        )

    def actions(self) -> list[Callable[[], object]]:
        redis = self.redis
        return [redis.restart, redis.become_unavailable, redis.fail_over, redis.freeze, redis.cut_each]

    def heal(self) -> None:
        self.redis.heal()

    def check_end(self) -> None:
        self.check_only_connection(self.pipe._connection)

    def close(self) -> None:
        self.pipe.close()
