"""From a quota decision to a 429."""

from django.http import HttpRequest

from accounts.keys.identity import Caller
from accounts.quota import anonymous
from accounts.quota.limits import DAY, RateLimitDecision
from accounts.usage import rejections, write_behind
from petstore.api.context import RequestContext
from petstore.api.errors import ApiError, ErrorCode
from petstore.observability.metrics import decision_counter


def throttle(request: HttpRequest, context: RequestContext) -> None:
    """Refuse what is over the limit with ApiError 429; a step of the gate.

    With a valid key the request was counted for its account when the key was proved; without one it counts
    for its client's address now. One with a key that nobody could look up, because the database is away,
    counts for nobody.
    """
    caller, decision = context.caller, context.decision
    if caller is None:
        if decision is not None:  # The key's own failure is the answer.
            return
        decision = context.decision = anonymous.take(request)
    assert isinstance(decision, RateLimitDecision)
    counts_for = "address" if caller is None else "key" if context.operation.free else "account"
    decision_counter("admitted" if decision.admitted else decision.refusal.value, counts_for)()
    if not decision.admitted:
        if caller is not None and counts_for == "account":  # Else it is no strike (D39).
            rejections.note(request, context, caller.public_id, decision.refusal.value, decision=decision)
        raise refusal(decision)
    deprecation = context.operation.deprecation
    if isinstance(caller, Caller) and counts_for == "account" and deprecation is not None:
        write_behind.recorder.call_deprecated(caller, deprecation.operation, decision.now)


def refusal(decision: RateLimitDecision) -> ApiError:
    """Return the 429: it names what refused, the limit, and the wait."""
    seconds = decision.retry_after
    wait = f"Try again in {seconds} {'second' if seconds == 1 else 'seconds'}."
    if decision.refusal is ErrorCode.API_KEY_BANNED:
        message = f"This API key is banned because it kept sending after 429. {wait}"
    else:
        reported = decision.reported
        window = "day (UTC)" if reported.length == DAY else reported.name
        message = f"The limit of {reported.limit} requests per {window} is used up. {wait}"
    return ApiError(decision.refusal, message, headers={"Retry-After": str(seconds)})
