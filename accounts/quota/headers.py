"""The one place that writes quota headers (D23, D28)."""

from time import monotonic

from django.http import HttpRequest

from accounts.quota import anonymous, store
from accounts.quota.limits import SECOND, RateLimitDecision
from petstore.api.context import RequestContext
from petstore.db import replicas


def quota_headers(request: HttpRequest, context: RequestContext) -> dict[str, str]:
    """Return those of an answer; what failed before any decision counts for its address.

    The last step of the gate: a write that took longer than replicas are kept from its account is noted
    once more.
    """
    began, caller = context.write_began, context.caller
    if began is not None and caller is not None and monotonic() - began > replicas.WRITE_SECONDS:
        store.note_write(caller.public_id)
    decision = context.decision or anonymous.take(request)
    assert isinstance(decision, RateLimitDecision)
    return headers_of(decision)


def untouched_headers() -> dict[str, str]:
    """Return those of an answer that was given before anybody counted."""
    return headers_of(anonymous.untouched())


def headers_of(decision: RateLimitDecision) -> dict[str, str]:
    """Return what is left: the contract's three headers, and the two of the IETF draft.

    `RateLimit-Policy: "minute";q=60;w=60` gives quota and window in seconds, `RateLimit:
    "minute";r=59;t=60` what remains and the seconds until it resets
    (draft-ietf-httpapi-ratelimit-headers, sections 3 and 4).
    """
    reported = decision.reported
    policies, states = [], []
    for window in decision.windows:
        policies.append(f'"{window.name}";q={window.limit};w={window.length // SECOND}')
        states.append(f'"{window.name}";r={window.remaining};t={decision.seconds_left(window)}')
    return {
        "X-RateLimit-Limit": str(reported.limit),
        "X-RateLimit-Remaining": str(reported.remaining),
        "X-RateLimit-Reset": str(reported.reset),
        "RateLimit-Policy": ", ".join(policies),
        "RateLimit": ", ".join(states),
    }
