"""The base class of the API's views, and the view of unknown paths. The steps before it: pipeline.py."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView

from petstore.api.deprecation import Deprecation
from petstore.api.errors import ApiError, ErrorCode, build_error_response
from petstore.api.pagination import KeysetPagination
from petstore.api.parsers import JsonRequest
from petstore.api.query_params import Filters
from petstore.api.responses import Response
from petstore.event_loop.compiled_reads import Read


class ApiView(APIView):
    """A DRF view without DRF's checks: the pipeline has checked key, quota and scope.

    DRF checks permissions before throttles, and doesn't count a request whose key was rejected.
    """

    # By action, in DRF's sense.
    required_scopes: Mapping[str, str] = MappingProxyType({})
    deprecations: Mapping[str, Deprecation] = MappingProxyType({})
    free_actions: Collection[str] = ()
    filters: Filters = ()  # Of the list action.
    # Shared by all requests, since they hold no state.
    parsers = tuple(parser() for parser in APIView.parser_classes)
    authenticators = tuple(one() for one in APIView.authentication_classes)
    negotiator = APIView.content_negotiation_class()
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "trace", "connect"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Call the method's handler and convert exceptions to Errors.

        Finally break the reference cycle between the view and DRF's request, so that neither waits for the
        garbage collector.
        """
        self.args, self.kwargs = args, kwargs
        self.request = mine = self.initialize_request(request, *args, **kwargs)
        try:
            method = (request.method or "").lower()
            known = method in self.http_method_names
            handler = getattr(self, method if known else "", self.http_method_not_allowed)
            return handler(mine, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  Every exception becomes an Error (D29).
            return self.handle_exception(error)
        finally:
            mine.parser_context.clear()
            vars(self).clear()

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        return JsonRequest(
            request,
            parsers=self.parsers,
            authenticators=self.authenticators,
            negotiator=self.negotiator,
            parser_context=self.get_parser_context(request),
        )

    def page_of(self, rows: Read, request: Request, using: str) -> Response:
        """Return the requested page of a list, read from the database `using`. Raises ApiError 400."""
        pages = KeysetPagination(using)
        page: Response = pages.get_paginated_response(pages.paginate_queryset(rows, request, self))
        return page

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise 405 with Allow (RFC 9110 section 15.5.6)."""
        allowed = {"Allow": ", ".join(self.allowed_methods)}
        raise ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers=allowed)

    def handle_exception(self, exc: Exception) -> Any:
        return build_error_response(exc)


class UnknownPathView(ApiView):
    """Responds with 404 to every other path under /v1, after the key was checked (D17)."""

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND)
