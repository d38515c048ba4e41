"""The anonymous limit: requests without a valid key per IPv4 address or IPv6 /64 (D25).

The setting ANONYMOUS_PER_MINUTE is the limit, and IPV6_PREFIX in petstore/api/client_ip.py the /64.
"""

import time
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest

from accounts.keys.key_format import ParsedKey
from accounts.quota.limits import MINUTE, SECOND, RateLimitDecision, Window
from petstore.api.client_ip import Address, get_client_network, get_network
from petstore.api.local_counters import LocalCounters

LOOKUPS_PER_SECOND = 20  # Per worker.
MAX_KEYS = 10_000


class LookupLimiter:
    """Limits database lookups of unknown keys, so that a flood of invented keys does not overload it.

    All networks over their anonymous limit share a few lookups per second and worker. Keys that this worker
    has recently admitted are exempt, but not others with the same public ID. From these networks, another
    valid key may be rejected, too.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()  # Hashes of whole keys, whose secrets must not be stored.
        self._second = self._remaining = 0

    def remember(self, key: ParsedKey) -> None:
        """Exempt a key whose secret was proved."""
        known = hash(key.text)
        if known not in self._known:
            if len(self._known) >= MAX_KEYS:
                self._known.clear()
            self._known.add(known)

    def allow(self, key: ParsedKey, address: Address, now: int | None = None) -> bool:
        if hash(key.text) in self._known:
            return True
        now = time.time_ns() // 1000 if now is None else now
        used, _ = counters.count(get_network(address), now, 0)
        if used <= settings.ANONYMOUS_PER_MINUTE:
            return True
        if now // SECOND != self._second:
            self._second, self._remaining = now // SECOND, LOOKUPS_PER_SECOND
        self._remaining -= 1
        return self._remaining >= 0


lookup_limiter = LookupLimiter()


# A flood must neither reach the database nor depend on it, so each machine counts by itself.
counters = LocalCounters(Path(settings.COUNTERS_DIR) / "anonymous-requests", settings.SECRET_KEY, MINUTE)


def peek(request: HttpRequest) -> RateLimitDecision:
    """Read the window of the client address. Neither counts nor rejects the request."""
    return admit(request, increment=0)._replace(admitted=True)


def admit(request: HttpRequest, *, increment: int = 1) -> RateLimitDecision:
    network, now = get_client_network(request), time.time_ns() // 1000
    used, ends_at = counters.count(network, now, increment)
    return RateLimitDecision(used <= settings.ANONYMOUS_PER_MINUTE, (build_window(used, ends_at),), now)


def build_window(used: int, ends_at: int) -> Window:
    return Window("minute", settings.ANONYMOUS_PER_MINUTE, used, MINUTE, ends_at)
