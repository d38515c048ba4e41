"""How many requests a client address may send without a valid key (D25), and what it costs to send more."""

import logging
import sqlite3
import time

from django.conf import settings
from django.http import HttpRequest
from django_ratelimit.core import get_usage

from accounts.quota.limits import MINUTE, SECOND, RateLimitDecision, Window
from petstore.api.client_ip import Address, client_network, network_of

logger = logging.getLogger(__name__)


LOOKUPS_EACH_SECOND = 20  # For one worker.
MOST_NETWORKS = 10_000  # Of some hundred bytes each; beyond it the oldest are forgiven.


class Lookups:
    """Which keys the database is asked about, so that a flood of invented keys is no flood of queries.

    Redis remembers for a moment that there is no such key (see redis_store.py), but a flood repeats none.
    So the addresses that have used up their requests without a valid key share a few lookups a second. A
    valid key waits for one of them only where such an address sends it and nobody has used it for a minute:
    Redis knows the others. Each worker decides for itself, from the 429s that it gave.
    """

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
            self._second, self._left = now // SECOND, LOOKUPS_EACH_SECOND
        self._left -= 1
        return self._left >= 0


lookups = Lookups()


def untouched() -> RateLimitDecision:
    """Return what an address has before its first request: for answers that come before the counting."""
    now = time.time_ns() // 1000
    window = Window("minute", settings.ANONYMOUS_PER_MINUTE, 0, MINUTE, now + MINUTE)
    return RateLimitDecision(True, (window,), now)


def peek(request: HttpRequest) -> RateLimitDecision:
    """Return what is left of the address's window for a request that is not counted, and not refused."""
    return take(request, counts=False)._replace(admitted=True)


def take(request: HttpRequest, *, counts: bool = True) -> RateLimitDecision:
    limit = settings.ANONYMOUS_PER_MINUTE
    network = client_network(request)
    used, ends_at, admitted = 0, time.time_ns() // 1000 + MINUTE, True
    try:
        usage = get_usage(
            request, group="anonymous", key=lambda *_: network, rate=f"{limit}/m", increment=counts
        )
    except sqlite3.Error:  # The counters are a convenience: losing them refuses nobody.
        logger.exception("The counters of client addresses can't be reached.")
    else:
        if usage["limit"]:  # 0: a counter ended, or Redis went, between the two steps of counting.
            used, admitted = usage["count"], not usage["should_limit"]
            # django-ratelimit still counts in the second it names as the end: the next one is free.
            ends_at = (int(time.time()) + usage["time_left"] + 1) * SECOND
        if counts and not admitted:
            lookups.restrict(network, ends_at)
    now = time.time_ns() // 1000
    return RateLimitDecision(admitted, (Window("minute", limit, used, MINUTE, ends_at),), now)
