"""What every view under /v1 shares: the order of its checks, and the answer to unknown paths."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from django.conf import settings
from rest_framework.request import Request
from rest_framework.views import APIView

from petstore.api.errors import ApiError, ErrorCode
from petstore.api.filters import Filters


class ApiView(APIView):
    """A DRF view whose checks run in the order of the contract.

    The key comes first, then its quota, then everything else, so that each request with a valid key costs
    one, whatever its answer (D17, D21). DRF's own order has permissions before throttles, and doesn't
    count a request whose key was refused.
    """

    # Actions that will be removed, and their operations' names: the throttle counts who still calls them.
    deprecated_operations: Mapping[str, str] = MappingProxyType({})
    filters: Filters = ()  # Of the list, where there is one.
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "trace", "connect"]

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Add nothing: DRF would put Allow on every answer."""
        return {}

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Answer 405, which must name the methods that are allowed (RFC 9110 section 15.5.6)."""
        allowed = {"Allow": ", ".join(self.allowed_methods)}
        raise ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers=allowed)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate, count, check the URL's length, then the scope."""
        self.format_kwarg = None
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)
        try:
            self.perform_authentication(request)
        finally:
            self.check_throttles(request)  # A request without a valid key counts for its address.
        check_url_length(request)
        self.check_permissions(request)

    def perform_authentication(self, request: Request) -> None:
        """Check the key, once: a failure, whatever it is, leaves a request without a caller."""
        try:
            super().perform_authentication(request)
        except Exception:
            request.user = request.auth = None  # type: ignore[assignment]  # Nobody.
            raise


def check_url_length(request: Request) -> None:
    """Refuse a URL of more than MAX_URL_BYTES."""
    if len(request.META.get("PATH_INFO", "")) + len(request.META.get("QUERY_STRING", "")) > (
        settings.MAX_URL_BYTES
    ):
        raise ApiError(ErrorCode.URI_TOO_LONG)


class NothingHere(ApiView):
    """Answers every path under /v1 that names no resource; the key is checked all the same (D17)."""

    required_scopes: dict[str, str] = {}

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Answer any method alike: none has a handler here."""
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND)
