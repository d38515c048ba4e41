"""The anonymous limit: requests per client address without a valid key (D25)."""

import logging
import sqlite3
import time

from django.conf import settings
from django.http import HttpRequest
from django_ratelimit.core import get_usage

from accounts.keys.key_format import ParsedKey
from accounts.quota.limits import MINUTE, SECOND, RateLimitDecision, Window
from petstore.api.client_ip import Address, get_client_network, get_network

logger = logging.getLogger(__name__)

LOOKUPS_PER_SECOND = 20  # Per worker.
MAX_KEYS = 10_000
MAX_NETWORKS = 10_000  # A few hundred bytes each. The least recently restricted are dropped.


class LookupLimiter:
    """Limits database lookups of unknown keys, so that a flood of invented keys does not overload it.

    All networks over their anonymous limit share a few lookups per second and worker. Keys that this worker
    has recently admitted are exempt, but not others with the same public ID. From these networks, another
    valid key may be rejected, too.
    """

    def __init__(self) -> None:
        self._restricted: dict[str, int] = {}
        self._known: set[int] = set()  # Hashes of whole keys, whose secrets must not be stored.
        self._second = self._remaining = 0

    def restrict(self, network: str, until: int) -> None:
        """Restrict a network until its limit resets, in microseconds since the epoch."""
        self._restricted.pop(network, None)  # Reinsert as the newest.
        self._restricted[network] = until
        if len(self._restricted) > MAX_NETWORKS:
            self._restricted.pop(next(iter(self._restricted)), None)

    def remember(self, key: ParsedKey) -> None:
        """Exempt a key whose secret was proved."""
        known = hash(key.text)
        if known not in self._known:
            if len(self._known) >= MAX_KEYS:
                self._known.clear()
            self._known.add(known)

    def allow(self, key: ParsedKey, address: Address, now: int | None = None) -> bool:
        if not self._restricted or hash(key.text) in self._known:
            return True
        now = time.time_ns() // 1000 if now is None else now
        if self._restricted.get(get_network(address), 0) <= now:
            return True
        if now // SECOND != self._second:
            self._second, self._remaining = now // SECOND, LOOKUPS_PER_SECOND
        self._remaining -= 1
        return self._remaining >= 0


lookup_limiter = LookupLimiter()


def peek(request: HttpRequest) -> RateLimitDecision:
    """Read the window of the client address. Neither counts nor rejects the request."""
    return admit(request, increment=False)._replace(admitted=True)


def admit(request: HttpRequest, *, increment: bool = True) -> RateLimitDecision:
    network, rate = get_client_network(request), f"{settings.ANONYMOUS_PER_MINUTE}/m"
    used, ends_at, admitted = 0, time.time_ns() // 1000 + MINUTE, True
    try:
        usage = get_usage(request, "anonymous", key=lambda *_: network, rate=rate, increment=increment)
    except sqlite3.Error:  # Fail open.
        logger.exception("The counters of client addresses are unavailable.")
    else:
        if usage["limit"]:  # 0 if the counter expired or Redis failed while counting.
            used, admitted = usage["count"], not usage["should_limit"]
            # django-ratelimit still counts during the second that it reports as the end.
            ends_at = (int(time.time()) + usage["time_left"] + 1) * SECOND
        if increment and not admitted:
            lookup_limiter.restrict(network, ends_at)
    now = time.time_ns() // 1000
    return RateLimitDecision(admitted, (build_window(used, ends_at),), now)


def build_window(used: int, ends_at: int) -> Window:
    return Window("minute", settings.ANONYMOUS_PER_MINUTE, used, MINUTE, ends_at)
