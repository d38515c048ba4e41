"""How many requests a client address may send without a valid key (D25)."""

import logging
import sqlite3
import time

from django.conf import settings
from django.http import HttpRequest
from django_ratelimit.core import get_usage

from accounts.limits import MINUTE, SECOND, Verdict, Window
from accounts.quota.lookup_throttle import lookups
from petstore.api.client_ip import client_network

logger = logging.getLogger(__name__)


def untouched() -> Verdict:
    """Return what an address has before its first request: for answers that come before the counting."""
    now = time.time_ns() // 1000
    window = Window("minute", settings.ANONYMOUS_PER_MINUTE, 0, MINUTE, now + MINUTE)
    return Verdict(True, (window,), now)


def take(request: HttpRequest) -> Verdict:
    return ask(request, counts=True)


def peek(request: HttpRequest) -> Verdict:
    """Return what is left of the address's window for a request that is not counted, and not refused."""
    return ask(request, counts=False)._replace(admitted=True)


def ask(request: HttpRequest, *, counts: bool) -> Verdict:
    limit = settings.ANONYMOUS_PER_MINUTE
    network = client_network(request)
    used, ends_at, admitted = 0, time.time_ns() // 1000 + MINUTE, True
    try:
        usage = get_usage(
            request,
            group="anonymous",
            key=lambda group, request: network,
            rate=f"{limit}/m",
            increment=counts,
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
    return Verdict(admitted, (Window("minute", limit, used, MINUTE, ends_at),), now)
