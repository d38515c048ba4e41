"""From a quota verdict to DRF's throttling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from accounts.quota import addresses
from accounts.quota.verdict import DAY, Verdict
from petstore.errors import ApiError, ErrorCode
from petstore.metrics import DECISIONS

if TYPE_CHECKING:
    from rest_framework.views import APIView


class QuotaThrottle(BaseThrottle):
    """Refuses what is over the limit.

    With a valid key the request was counted for its account when the key was proved; without one it counts
    for its client's address now.
    """

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Return True, or raise the ApiError 429. The verdict stays for the headers' middleware."""
        meta = request._request.META
        verdict: Verdict = meta.get("QUOTA_VERDICT") or addresses.take(request._request)
        meta["QUOTA_VERDICT"] = verdict
        DECISIONS.labels("admitted" if verdict.admitted else verdict.refusal.value).inc()
        if not verdict.admitted:
            raise refusal(verdict)
        return True


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
