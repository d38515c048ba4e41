"""What every view under /v1 shares, and the answer to unknown paths. What comes before a view: gate.py."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from rest_framework.request import Request
from rest_framework.views import APIView

from petstore.api.errors import ApiError, ErrorCode, answer_to
from petstore.api.filters import Filters
from petstore.api.passage import Deprecation


class ApiView(APIView):
    """A DRF view behind the gate, which has checked the key, its quota and its scope.

    DRF's own order has permissions before throttles, and doesn't count a request whose key was refused.
    """

    # By action, as DRF calls a viewset's methods.
    required_scopes: Mapping[str, str] = MappingProxyType({})
    deprecations: Mapping[str, Deprecation] = MappingProxyType({})
    filters: Filters = ()  # Of the list, where there is one.
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "trace", "connect"]
    default_response_headers = {}  # DRF would put Allow on every answer.

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Answer 405, which must name the methods that are allowed (RFC 9110 section 15.5.6)."""
        allowed = {"Allow": ", ".join(self.allowed_methods)}
        raise ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers=allowed)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Choose the renderer. DRF would check the caller here."""
        self.format_kwarg = None
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)

    def handle_exception(self, exc: Exception) -> Any:
        """Answer with an Error."""
        return answer_to(exc)


class NothingHere(ApiView):
    """Answers every path under /v1 that names no resource; the key is checked all the same (D17)."""

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Answer any method alike: none has a handler here."""
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND)
