"""What every view under /v1 shares, and the answer to unknown paths. What comes before a view: gate.py."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from django.conf import settings
from django.http import HttpRequest
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from petstore.api.deprecation import Deprecation
from petstore.api.errors import ApiError, ErrorCode, answer_to
from petstore.api.pagination import LONGEST_KEPT, KeysetPagination, asked_page, page_url
from petstore.api.query_params import Filters
from petstore.api.responses import Response
from petstore.loop.compiled_reads import Read


class ApiView(ViewSetMixin, APIView):
    """A DRF viewset behind the gate, which has checked the key, its quota and its scope.

    DRF's own order has permissions before throttles, and doesn't count a request whose key was refused. Its
    request is not made: views get Django's.
    """

    # By action, as DRF calls a viewset's methods.
    required_scopes: Mapping[str, str] = MappingProxyType({})
    deprecations: Mapping[str, Deprecation] = MappingProxyType({})
    free_actions: Collection[str] = ()
    filters: Filters = ()  # Of the list, where there is one.
    pagination_class = KeysetPagination
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "trace", "connect"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Call the handler of the method, and answer what it raises.

        At the end the view forgets its methods: they know it, so it would wait for the collector.
        """
        try:
            method = (request.method or "").lower()
            known = method in self.http_method_names
            handler = getattr(self, method if known else "", self.http_method_not_allowed)
            return handler(request, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  Whatever it is, the answer is an Error (D29).
            return self.handle_exception(error)
        finally:
            vars(self).clear()

    def page_of(self, rows: Read, request: HttpRequest, using: str) -> Response:
        """Answer with the page of a list that is asked for, from this database. Raises ApiError 400."""
        path, query = request.path_info, request.META.get("QUERY_STRING", "")
        read = asked_page if len(query) <= LONGEST_KEPT else asked_page.__wrapped__
        asked = read(self.filters, path, query)
        found = rows.where(**asked.where).first(asked.limit + 1, using)
        headers = {}
        if len(found) > asked.limit:
            found.pop()
            # From BASE_URL and never from the Host header (D10).
            url = page_url(settings.BASE_URL, path, asked.filters, asked.limit, found[-1]["id"])
            headers["Link"] = f'<{url}>; rel="next"'
        return Response(found, headers=headers)

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Answer 405, which must name the methods that are allowed (RFC 9110 section 15.5.6)."""
        allowed = {"Allow": ", ".join(self.allowed_methods)}
        raise ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers=allowed)

    def handle_exception(self, exc: Exception) -> Any:
        """Answer with an Error."""
        return answer_to(exc)


def nothing_here(request: HttpRequest) -> NoReturn:
    """Answer every path under /v1 that names no resource; the key is checked all the same (D17)."""
    raise ApiError(ErrorCode.RESOURCE_NOT_FOUND)
