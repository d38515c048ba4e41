"""Turns a rate-limit decision into a 429."""

from django.http import HttpRequest

from accounts.keys.identity import Caller
from accounts.quota import anonymous
from accounts.quota.limits import DAY, RateLimitDecision
from accounts.usage import rejections, write_behind
from petstore.api.context import RequestContext
from petstore.api.errors import ApiError, ErrorCode
from petstore.observability.metrics import count_decision


def throttle(request: HttpRequest, context: RequestContext) -> None:
    """Raise ApiError 429 for a request over its limit. A step of the request pipeline.

    Authentication has already counted a request with a valid key. Without one, the request counts for its
    client address here, unless the key could not be checked because the database is unavailable.
    """
    caller, decision = context.caller, context.decision
    if caller is None:
        if decision is not None:  # Authentication failed with an error of its own.
            return
        decision = context.decision = anonymous.admit(request)
    assert isinstance(decision, RateLimitDecision)
    counts_for = "address" if caller is None else "key" if context.operation.free else "account"
    count_decision("admitted" if decision.admitted else decision.error_code.value, counts_for)
    if not decision.admitted:
        if caller is not None and counts_for == "account":  # Free requests are no strikes (D39).
            rejections.record_rejection(
                request, context, caller.public_id, decision.error_code.value, decision=decision
            )
        raise rate_limit_error(decision)
    deprecation = context.operation.deprecation
    if isinstance(caller, Caller) and counts_for == "account" and deprecation is not None:
        write_behind.recorder.record_deprecated_call(caller, deprecation.operation, decision.now)


def rate_limit_error(decision: RateLimitDecision) -> ApiError:
    seconds = decision.retry_after
    wait = f"Try again in {seconds} {'second' if seconds == 1 else 'seconds'}."
    if decision.error_code is ErrorCode.API_KEY_BANNED:
        message = f"This API key is banned because it kept sending after 429. {wait}"
    else:
        reported = decision.reported_window
        window = "day (UTC)" if reported.length == DAY else reported.name
        message = f"The limit of {reported.limit} requests per {window} is used up. {wait}"
    return ApiError(decision.error_code, message, headers={"Retry-After": str(seconds)})
