"""Enforces rate-limit decisions: raises 429 for rejected requests."""

from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from accounts.quota import anonymous, headers
from accounts.quota.limits import DAY, RateLimitDecision
from accounts.usage import write_behind
from accounts.usage.rejection_log import RejectedRequest
from petstore.api.context import NO_OPERATION, RequestContext
from petstore.api.errors import ApiError, ErrorCode
from petstore.observability.instrumentation import get_request_metrics
from petstore.observability.metrics import count_decision

NO_SUCH_OPERATION = "(no such operation)"


class QuotaThrottle(BaseThrottle):
    """Enforces the rate-limit decision on a request.

    Authentication has already counted requests with a valid key. Any other counts against its client
    address here, unless the key could not be checked, for example because the database is unavailable.
    """

    get_headers = staticmethod(headers.build_quota_headers)
    get_unused_headers = staticmethod(headers.build_unused_quota_headers)

    def allow_request(self, request: Request, view: Any) -> bool:
        """Raise ApiError 429, which names the limit, if the request was rejected."""
        self.throttle(request._request)
        return True

    def throttle(self, request: HttpRequest) -> None:
        context = RequestContext.get(request)
        caller, decision = context.caller, context.decision
        if caller is None:
            if decision is not None:  # The key could not be checked.
                return
            decision = context.decision = anonymous.admit(request)
            counts_for = "address"
        else:
            counts_for = "key" if context.operation.free else "account"
        assert isinstance(decision, RateLimitDecision)
        count_decision("admitted" if decision.admitted else decision.error_code.value, counts_for)
        if not decision.admitted:
            # The rejection log covers the account's quota, not the limit of free requests (D39).
            if caller is not None and counts_for == "account":
                rejected = RejectedRequest.from_request(
                    request, context, caller.public_id, decision.error_code.value, decision=decision
                )
                write_behind.recorder.record_rejection(rejected)
            raise build_error(decision)
        deprecation = context.operation.deprecation
        if caller is not None and counts_for == "account" and deprecation is not None:
            write_behind.recorder.record_deprecated_call(caller, deprecation.operation, decision.now)

    @staticmethod
    def record_response(request: HttpRequest, status: int) -> None:
        """Record operation and status of a request that counted towards an account's quota."""
        context = RequestContext.get(request)
        caller, decision, operation = context.caller, context.decision, context.operation
        if caller is not None and isinstance(decision, RateLimitDecision) and not operation.free:
            name = NO_SUCH_OPERATION
            if operation is not NO_OPERATION:
                metrics = get_request_metrics(request, status)
                name = f"{metrics.method} {metrics.route}"
            write_behind.recorder.record_response(caller, name, status, decision.now)


def build_error(decision: RateLimitDecision) -> ApiError:
    seconds = decision.retry_after
    advice = f"Try again in {seconds} {'second' if seconds == 1 else 'seconds'}."
    if decision.error_code is ErrorCode.API_KEY_BANNED:
        message = f"This API key is banned because it kept sending after 429. {advice}"
    else:
        reported = decision.reported_window
        window = "day (UTC)" if reported.length == DAY else reported.name
        message = f"The limit of {reported.limit} requests per {window} is used up. {advice}"
    return ApiError(decision.error_code, message, headers={"Retry-After": str(seconds)})
