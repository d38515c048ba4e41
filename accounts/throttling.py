"""From a quota verdict to DRF's throttling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from accounts.caller import Caller
from accounts.limits import DAY, Verdict
from accounts.quota import anonymous
from accounts.usage import write_behind
from accounts.usage.refusals import Refused
from petstore.api.errors import ApiError, ErrorCode
from petstore.observability.metrics import decision

if TYPE_CHECKING:
    from rest_framework.views import APIView


class QuotaThrottle(BaseThrottle):
    """Refuses what is over the limit.

    With a valid key the request was counted for its account when the key was proved; without one it counts
    for its client's address now. One with a key that nobody could look up, because the database is away,
    counts for nobody.
    """

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Return True, or raise the ApiError 429. The verdict stays for the headers' middleware."""
        meta = request._request.META
        caller = request.auth
        if caller is None and "QUOTA_VERDICT" in meta:  # The key's own failure is the answer.
            return True
        verdict: Verdict = meta.get("QUOTA_VERDICT") or anonymous.take(request._request)
        meta["QUOTA_VERDICT"] = verdict
        outcome = "admitted" if verdict.admitted else verdict.refusal.value
        decision(outcome, "account" if isinstance(caller, Caller) else "address")()
        if not verdict.admitted:
            if isinstance(caller, Caller):
                write_behind.recorder.refuse(refused(request._request, caller, verdict))
            raise refusal(verdict)
        if (deprecated := getattr(view, "deprecated_operations", None)) and isinstance(caller, Caller):
            operation = deprecated.get(getattr(view, "action", None))
            if operation is not None:
                write_behind.recorder.call_deprecated(caller, operation, verdict.now)
        return True


def refused(request: HttpRequest, caller: Caller, verdict: Verdict) -> Refused:
    """Return what staff may want to know of a refused request."""
    match = request.resolver_match
    route = match.route if match else ""
    return Refused(request.META.get("REQUEST_ID", ""), caller, verdict, request.method or "", route)


def refusal(verdict: Verdict) -> ApiError:
    """Return the 429: it names what refused, the limit, and the wait."""
    seconds = verdict.retry_after
    wait = f"Try again in {seconds} {'second' if seconds == 1 else 'seconds'}."
    if verdict.refusal is ErrorCode.API_KEY_BANNED:
        message = f"This API key is banned because it kept sending after 429. {wait}"
    else:
        shown = verdict.shown
        window = "day (UTC)" if shown.length == DAY else shown.name
        message = f"The limit of {shown.limit} requests per {window} is used up. {wait}"
    return ApiError(verdict.refusal, message, headers={"Retry-After": str(seconds)})
