"""The base class of the API's views, and the view for unknown paths."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from django.conf import settings
from django.http import HttpRequest
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.serializers import Serializer

from petstore.api.context import NO_OPERATION, Operation, RequestContext
from petstore.api.deprecation import Deprecation
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.pagination import Rows
from petstore.api.query_params import Filters
from petstore.api.request_headers import check_content, check_head
from petstore.api.response_headers import add_headers
from petstore.api.responses import Response, from_drf


class ApiView(GenericAPIView[Any]):
    """A generic view of DRF that counts every request, also one that it then rejects.

    DRF's mixins and responses work. Ours are faster: `paginate` a `Read`, and `petstore.api.responses`.
    """

    # Keyed by action, such as "list".
    required_scopes: Mapping[str, str] = MappingProxyType({})
    deprecations: Mapping[str, Deprecation] = MappingProxyType({})
    free_actions: Collection[str] = ()
    filters: Filters = ()  # For the list action.
    format_kwarg = None  # DRF's `initial` would set it.
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "trace", "connect"]
    default_response_headers: ClassVar[dict[str, str]] = {}  # DRF would join the allowed methods each time.

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the key, then the quota, then the scope.

        DRF would check permissions before throttles, and throttle no request whose key is rejected. The
        checks of the URL and of the body come after the quota.
        """
        http_request = request._request
        context = RequestContext.get(http_request)
        context.operation = self.get_operation()
        try:
            check_head(http_request)
            self.perform_authentication(request)  # Also on unknown paths (D17).
        finally:
            self.check_throttles(request)  # Also without a valid key, to count the address.
        check_url_length(http_request)
        self.check_permissions(request)
        check_content(http_request)

    def get_operation(self) -> Operation:
        action = getattr(self, "action", None)
        if action is None:
            return NO_OPERATION
        scope, deprecation = self.required_scopes.get(action), self.deprecations.get(action)
        return Operation(scope, deprecation, action in self.free_actions)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = from_drf(response)
        add_headers(request._request, response)
        return response

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().dispatch(request, *args, **kwargs)
        finally:
            # Break the reference cycle between the view and DRF's request, to free both immediately.
            self.request.parser_context.clear()
            vars(self).clear()

    def paginate(self, rows: Rows) -> Response:
        """Respond with a page of dicts: of a `Read`, or of a `.values()` queryset."""
        queryset: Any = rows  # DRF's stubs know no Read.
        return from_drf(self.get_paginated_response(self.paginate_queryset(queryset)))

    def validate(
        self, request: Request, serializer_class: type[Serializer[Any]], **context: Any
    ) -> dict[str, Any]:
        """Return the validated body. Raises DRF's ValidationError."""
        serializer = serializer_class(data=request.data, context=context)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise 405 with Allow (RFC 9110 section 15.5.6)."""
        headers = {"Allow": ", ".join(self.allowed_methods)}
        raise ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers=headers)


class UnknownPathView(ApiView):
    """Responds with 404 to every unknown path under /v1, once the key is checked (D17)."""

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND)


def check_url_length(request: HttpRequest) -> None:
    meta = request.META
    if len(meta.get("PATH_INFO", "")) + len(meta.get("QUERY_STRING", "")) > settings.MAX_URL_BYTES:
        raise ApiError(ErrorCode.URI_TOO_LONG)
