"""What every view under /v1 shares, and the answer to unknown paths. What comes before a view: gate.py."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView

from petstore.api.deprecation import Deprecation
from petstore.api.errors import ApiError, ErrorCode, error_response
from petstore.api.pagination import KeysetPagination
from petstore.api.parsers import JsonRequest
from petstore.api.query_params import Filters
from petstore.api.responses import Response
from petstore.event_loop.compiled_reads import Read


class ApiView(APIView):
    """A DRF view behind the gate, which has checked the key, its quota and its scope.

    DRF's own order has permissions before throttles, and doesn't count a request whose key was refused.
    """

    # By action, as DRF calls a viewset's methods.
    required_scopes: Mapping[str, str] = MappingProxyType({})
    deprecations: Mapping[str, Deprecation] = MappingProxyType({})
    free_actions: Collection[str] = ()
    filters: Filters = ()  # Of the list, where there is one.
    # One of each for all requests: they keep nothing of them.
    parsers = tuple(parser() for parser in APIView.parser_classes)
    authenticators = tuple(one() for one in APIView.authentication_classes)
    negotiator = APIView.content_negotiation_class()
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "trace", "connect"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Call the handler of the method, and answer what it raises.

        At the end the view and DRF's request are parted: they know each other, so they would both wait for
        the collector, 20 KB for each request.
        """
        self.args, self.kwargs = args, kwargs
        self.request = mine = self.initialize_request(request, *args, **kwargs)
        try:
            method = (request.method or "").lower()
            known = method in self.http_method_names
            handler = getattr(self, method if known else "", self.http_method_not_allowed)
            return handler(mine, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  Whatever it is, the answer is an Error (D29).
            return self.handle_exception(error)
        finally:
            mine.parser_context.clear()
            vars(self).clear()

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """Return DRF's request, without making all that it needs anew."""
        return JsonRequest(
            request,
            parsers=self.parsers,
            authenticators=self.authenticators,
            negotiator=self.negotiator,
            parser_context=self.get_parser_context(request),
        )

    def page_of(self, rows: Read, request: Request, using: str) -> Response:
        """Answer with the page of a list that is asked for, from this database. Raises ApiError 400."""
        pages = KeysetPagination(using)
        page: Response = pages.get_paginated_response(pages.paginate_queryset(rows, request, self))
        return page

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Answer 405, which must name the methods that are allowed (RFC 9110 section 15.5.6)."""
        allowed = {"Allow": ", ".join(self.allowed_methods)}
        raise ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers=allowed)

    def handle_exception(self, exc: Exception) -> Any:
        """Answer with an Error."""
        return error_response(exc)


class UnknownPathView(ApiView):
    """Answers every path under /v1 that names no resource; the key is checked all the same (D17)."""

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Answer any method alike: none has a handler here."""
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND)
