"""The quota headers of responses (D23, D28)."""

import time
from time import monotonic

from django.http import HttpRequest

from accounts.quota import anonymous, store
from accounts.quota.limits import MINUTE, SECOND, RateLimitDecision
from petstore.api.context import RequestContext
from petstore.db import replicas


def build_quota_headers(request: HttpRequest) -> dict[str, str]:
    """Build the headers, after counting a request without a decision for its client address.

    Also records the end of a long write, so that the account continues to read from the primary.
    """
    context = RequestContext.get(request)
    began, caller = context.write_began, context.caller
    if began is not None and caller is not None and monotonic() - began > replicas.WRITE_SECONDS:
        store.record_write(caller)
    decision = context.decision or anonymous.admit(request)
    assert isinstance(decision, RateLimitDecision)
    return format_headers(decision)


def build_unused_quota_headers() -> dict[str, str]:
    """Build the headers of an unused anonymous limit, for responses that are not counted."""
    now = time.time_ns() // 1000
    return format_headers(RateLimitDecision(True, (anonymous.build_window(0, now + MINUTE),), now))


def format_headers(decision: RateLimitDecision) -> dict[str, str]:
    """Format X-RateLimit-* for the reported window, and RateLimit-* for all windows (D28).

    `RateLimit-Policy: "minute";q=60;w=60` has the quota and the window in seconds. `RateLimit:
    "minute";r=59;t=60` has the remaining requests and the seconds until the reset
    (draft-ietf-httpapi-ratelimit-headers, sections 3 and 4).
    """
    reported = decision.reported_window
    policies, limits = [], []
    for window in decision.windows:
        policies.append(f'"{window.name}";q={window.limit};w={window.length // SECOND}')
        limits.append(f'"{window.name}";r={window.remaining};t={decision.seconds_until_reset(window)}')
    return {
        "X-RateLimit-Limit": str(reported.limit),
        "X-RateLimit-Remaining": str(reported.remaining),
        "X-RateLimit-Reset": str(reported.reset),
        "RateLimit-Policy": ", ".join(policies),
        "RateLimit": ", ".join(limits),
    }
