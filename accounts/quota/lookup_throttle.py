"""Which keys the database is asked about, so that a flood of invented keys is no flood of queries.

Redis remembers for a moment that there is no such key (see redis_store.py), but a flood repeats none. So
the addresses that have used up their requests without a valid key (D25) share a few lookups a second. A
valid key waits for one of them only where such an address sends it and nobody has used it for a minute:
Redis knows the others. Each worker decides for itself, from the 429s that it gave.
"""

import time

from accounts.limits import SECOND
from petstore.api.client_ip import Address, network_of

EACH_SECOND = 20  # For one worker.
MOST_NETWORKS = 10_000  # Of some hundred bytes each; beyond it the oldest are forgiven.


class Lookups:
    """The client networks that are over their limit, and what is left of this second's lookups."""

    def __init__(self) -> None:
        self._over: dict[str, int] = {}
        self._second = 0
        self._left = 0

    def restrict(self, network: str, until: int) -> None:
        """Note a network that is over its limit until then, in microseconds since the epoch."""
        self._over.pop(network, None)  # So that it comes last.
        self._over[network] = until
        if len(self._over) > MOST_NETWORKS:
            self._over.pop(next(iter(self._over)), None)

    def take(self, address: Address, now: int | None = None) -> bool:
        """Tell whether the database may be asked about a key from this address."""
        now = time.time_ns() // 1000 if now is None else now
        if self._over.get(network_of(address), 0) <= now:
            return True
        if now // SECOND != self._second:
            self._second, self._left = now // SECOND, EACH_SECOND
        self._left -= 1
        return self._left >= 0


lookups = Lookups()
