"""The quota headers of every response under /v1, whoever made it."""

from time import monotonic

from django.http import HttpRequest, HttpResponseBase

from accounts.quota import anonymous, store
from accounts.quota.headers import write_headers
from petstore.db import replicas
from petstore.web.middleware import GetResponse, is_api


class QuotaHeadersMiddleware:
    """Writes what the throttle decided; what failed before any decision counts for its address."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the headers."""
        response = self.get_response(request)
        if is_api(request):
            verdict = request.META.get("QUOTA_VERDICT") or anonymous.take(request)
            write_headers(response, verdict)
            if "WRITE_BEGAN" in request.META:
                note_long_write(*request.META["WRITE_BEGAN"])
        return response


def note_long_write(public_id: str, began: float) -> None:
    """Note a write once more that took longer than replicas are kept from its account for."""
    if monotonic() - began > replicas.WRITE_SECONDS:
        store.note_write(public_id)
