"""What is noted of a request that is refused although its client has the secret of a key."""

import time

from django.http import HttpRequest

from accounts.quota.limits import RateLimitDecision
from accounts.usage import write_behind
from accounts.usage.rejection_log import Refused
from petstore.api.client_ip import client_address
from petstore.api.context import RequestContext


def note(
    request: HttpRequest,
    context: RequestContext,
    public_id: str,
    rule: str,
    *,
    decision: RateLimitDecision | None = None,
    scope: str = "",
) -> None:
    """Note what staff may want to know. `decision`: where the quota refused."""
    match = request.resolver_match
    refused = Refused(
        request_id=context.id,
        public_id=public_id,
        rule=rule,
        at=time.time_ns() // 1000 if decision is None else decision.now,
        method=request.method or "",
        route=match.route if match else "",
        address=client_address(request),
        decision=decision,
        scope=scope,
    )
    write_behind.recorder.refuse(refused)


def note_missing_scope(request: HttpRequest, context: RequestContext, scope: str) -> None:
    """Do so for a key that lacks the operation's scope; a step of the gate."""
    if context.caller is not None:
        note(request, context, context.caller.public_id, "insufficient_scope", scope=scope)
