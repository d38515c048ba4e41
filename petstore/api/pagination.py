"""Keyset pages: the next one starts after the last id, so every page costs the same (D9)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.core.signing import BadSignature, Signer, b62_decode, b62_encode
from rest_framework.pagination import BasePagination
from rest_framework.request import Request

from petstore.api.filters import chosen
from petstore.api.query_params import bounded, invalid_parameter, single
from petstore.api.responses import Response

if TYPE_CHECKING:
    from rest_framework.views import APIView

    from petstore.api.views import ApiView

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


class KeysetPagination(BasePagination):
    """A bare array of rows in ascending `id`; the next page's URL is in the Link header.

    The cursor is the last id, signed for its path, so a changed one is refused rather than obeyed.
    """

    next_url: str | None = None

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any]:
        """Return those of a `Read` that the view's filters keep, one page of them. Raises ApiError 400."""
        filters = chosen(request, cast("ApiView", view).filters)
        queryset = queryset.where(**{one.column: value for one, value in filters.items()})
        limit = bounded(request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        after = self.read_cursor(request)
        if after is not None:
            queryset = queryset.after(after)
        rows: list[Any] = queryset.first(limit + 1)
        if len(rows) > limit:
            rows.pop()
            repeated = tuple((one.name, str(value)) for one, value in filters.items())
            self.next_url = self.build_next_url(request.path_info, repeated, limit, rows[-1]["id"])
        return rows

    def get_paginated_response(self, data: list[Any]) -> Any:
        """Return the page, with `Link: rel="next"` if another follows."""
        headers = {"Link": f'<{self.next_url}>; rel="next"'} if self.next_url else {}
        return Response(data, headers=headers)

    def read_cursor(self, request: Request) -> int | None:
        """Return the id after which the page starts. Raises ApiError 400."""
        cursor = single(request, "cursor")
        if cursor is None:
            return None
        try:
            return b62_decode(signer(request.path_info).unsign(cursor))
        except BadSignature:
            raise invalid_parameter(
                '`cursor` is not one that this list gave. Take it from Link: rel="next".'
            ) from None

    def build_next_url(
        self, path: str, filters: tuple[tuple[str, str], ...], limit: int, last_id: int
    ) -> str:
        """Return the next page's full URL, from BASE_URL and never from the Host header (D10)."""
        return page_url(settings.BASE_URL, path, filters, limit, last_id)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return schema

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        return [
            *(one.parameter() for one in cast("ApiView", view).filters),
            {
                "name": "limit",
                "in": "query",
                "description": "Maximum number of items returned.",
                "schema": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                },
            },
            {
                "name": "cursor",
                "in": "query",
                "description": 'Where the page starts: taken from the previous page\'s `Link: rel="next"`.',
                "schema": {"type": "string", "minLength": 1},
            },
        ]


@lru_cache(maxsize=1024)  # First pages are asked for most, and signing took a tenth of a request.
def page_url(base: str, path: str, filters: tuple[tuple[str, str], ...], limit: int, last_id: int) -> str:
    """Return the URL of the page after an id."""
    cursor = signer(path).sign(b62_encode(last_id))
    query = [*filters, ("limit", str(limit)), ("cursor", cursor)]
    return f"{base}{path.removeprefix('/v1')}?{urlencode(query)}"


@cache
def signer(path: str) -> Signer:
    """Return the signer of one list's cursors: a cursor of pets is none of orders."""
    return Signer(sep=".", salt=f"petstore.cursor:{path}")
