"""The base class of the API's views, and the view for unknown paths. The pipeline calls them."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from petstore.api.deprecation import Deprecation
from petstore.api.errors import ApiError, ErrorCode, build_error_response
from petstore.api.pagination import KeysetPagination
from petstore.api.parsers import JSONRequest
from petstore.api.query_params import Filters


class ApiView(APIView):
    """A DRF view without DRF's checks, since the pipeline checks key, quota and scope.

    DRF would check permissions before throttles, and not count a request whose key is rejected.
    """

    # Keyed by action, such as "list".
    required_scopes: Mapping[str, str] = MappingProxyType({})
    deprecations: Mapping[str, Deprecation] = MappingProxyType({})
    free_actions: Collection[str] = ()
    filters: Filters = ()  # For the list action.
    serializer_class: type[Serializer[Any]] | None = None  # Of the request's body.
    pagination_class = KeysetPagination  # For the OpenAPI document.
    # Stateless, so all requests share them.
    parsers = tuple(parser() for parser in APIView.parser_classes)
    authenticators = tuple(authenticator() for authenticator in APIView.authentication_classes)
    negotiator = APIView.content_negotiation_class()
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "trace", "connect"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Call the method's handler and convert exceptions to Errors."""
        self.args, self.kwargs = args, kwargs
        self.request = drf_request = self.initialize_request(request, *args, **kwargs)
        handler = self.http_method_not_allowed
        try:
            method = (request.method or "").lower()
            if method in self.http_method_names:
                handler = getattr(self, method, handler)
            return handler(drf_request, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  Every exception becomes an Error (D29).
            return self.handle_exception(error)
        finally:
            # Break the reference cycle between the view and DRF's request, to free both immediately.
            drf_request.parser_context.clear()
            vars(self).clear()

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        return JSONRequest(
            request,
            parsers=self.parsers,
            authenticators=self.authenticators,
            negotiator=self.negotiator,
            parser_context=self.get_parser_context(request),
        )

    def validate(self, request: Request) -> dict[str, Any]:
        """Return the validated body. Raises DRF's ValidationError."""
        assert self.serializer_class is not None
        serializer = self.serializer_class(data=request.data)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise 405 with Allow (RFC 9110 section 15.5.6)."""
        headers = {"Allow": ", ".join(self.allowed_methods)}
        raise ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers=headers)

    def handle_exception(self, exc: Exception) -> Any:
        return build_error_response(exc)


class UnknownPathView(ApiView):
    """Responds with 404 to every unknown path under /v1, once the key is checked (D17)."""

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND)
