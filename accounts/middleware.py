"""The quota headers of every response under /v1, whoever made it."""

from django.http import HttpRequest, HttpResponseBase

from accounts.quota import addresses
from accounts.quota.headers import write_headers
from petstore.middleware import GetResponse, is_api


class QuotaHeadersMiddleware:
    """Writes what the throttle decided; what failed before any decision counts for its address."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the headers."""
        response = self.get_response(request)
        if is_api(request):
            verdict = request.META.get("QUOTA_VERDICT") or addresses.take(request)
            write_headers(response, verdict)
        return response
