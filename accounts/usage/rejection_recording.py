"""Records rejected requests. Unknown keys and wrong secrets are excluded, since anyone can send those."""

import time

from django.http import HttpRequest

from accounts.quota.limits import RateLimitDecision
from accounts.usage import write_behind
from accounts.usage.rejection_log import RejectedRequest
from petstore.api.client_ip import get_client_address
from petstore.api.context import RequestContext


def record_rejection(
    request: HttpRequest,
    context: RequestContext,
    public_id: str,
    reason: str,
    *,
    decision: RateLimitDecision | None = None,
    scope: str = "",
) -> None:
    """Record a rejection. `decision` is set if the quota rejected the request."""
    match = request.resolver_match
    rejected = RejectedRequest(
        request_id=context.id,
        public_id=public_id,
        reason=reason,
        rejected_at=time.time_ns() // 1000 if decision is None else decision.now,
        method=request.method or "",
        route=match.route if match else "",
        address=get_client_address(request),
        decision=decision,
        scope=scope,
    )
    write_behind.recorder.record_rejection(rejected)


def record_missing_scope(request: HttpRequest, context: RequestContext, scope: str) -> None:
    """Record a 403, as a step of the request pipeline."""
    if context.caller is not None:
        record_rejection(request, context, context.caller.public_id, "insufficient_scope", scope=scope)
