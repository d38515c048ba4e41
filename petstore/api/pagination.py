"""Keyset pagination: the next page starts after the last id, so deep pages cost no more (D9)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.core.signing import BadSignature, Signer, b62_decode, b62_encode
from django.db import DEFAULT_DB_ALIAS
from django.http import QueryDict
from rest_framework.pagination import BasePagination
from rest_framework.request import Request

from petstore.api.query_params import Filters, bounded, filter_values, invalid_parameter, single
from petstore.api.responses import Response

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_CACHED_QUERY = 250  # Characters of a query string.


class PageQuery(NamedTuple):
    where: dict[str, Any]  # Conditions of a `Read`.
    limit: int
    filters: tuple[tuple[str, str], ...]  # As the next page's URL repeats them.


class KeysetPagination(BasePagination):
    """Pages are bare arrays in ascending order of `id`; the next page's URL is in the Link header.

    The cursor is the last id, signed for its path, so that clients can't forge one.
    """

    next_url: str | None = None

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        self._using = using

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """Return one page of a `Read`, filtered by the query string. Raises ApiError 400."""
        path, query = request.path_info, request.META.get("QUERY_STRING", "")
        parse = parse_page_query if len(query) <= MAX_CACHED_QUERY else parse_page_query.__wrapped__
        page = parse(view.filters, path, query)
        rows: list[Any] = queryset.where(**page.where).fetch(page.limit + 1, self._using)
        if len(rows) > page.limit:
            rows.pop()
            # Never from the Host header (D10).
            self.next_url = page_url(settings.BASE_URL, path, page.filters, page.limit, rows[-1]["id"])
        return rows

    def get_paginated_response(self, data: list[Any]) -> Any:
        headers = {"Link": f'<{self.next_url}>; rel="next"'} if self.next_url else {}
        return Response(data, headers=headers)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return schema

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            *(one.parameter() for one in view.filters),
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
                "example": DEFAULT_LIMIT,
            },
            {
                "name": "cursor",
                "in": "query",
                "description": 'Where the page starts: taken from the previous page\'s `Link: rel="next"`.',
                "schema": {"type": "string", "minLength": 1},
            },
        ]


@lru_cache(maxsize=1024)
def parse_page_query(filters: Filters, path: str, query: str) -> PageQuery:
    """Parse a query string (Latin-1, as in WSGI). Raises ApiError 400."""
    parameters = QueryDict(query.encode("latin-1"))
    values = filter_values(parameters, filters)
    where = {one.column: value for one, value in values.items()}
    limit = bounded(parameters, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    after = parse_cursor(parameters, path)
    if after is not None:
        where["keyset__gt"] = after
    return PageQuery(where, limit, tuple((one.name, str(value)) for one, value in values.items()))


def parse_cursor(parameters: QueryDict, path: str) -> int | None:
    """Return the id that the page starts after, or None without a cursor. Raises ApiError 400."""
    cursor = single(parameters, "cursor")
    if cursor is None:
        return None
    try:
        return b62_decode(signer(path).unsign(cursor))
    except BadSignature:
        raise invalid_parameter(
            '`cursor` is not one that this list gave. Take it from Link: rel="next".'
        ) from None


@lru_cache(maxsize=1024)  # Signing is slow, and first pages are requested most.
def page_url(base: str, path: str, filters: tuple[tuple[str, str], ...], limit: int, last_id: int) -> str:
    query = [*filters, ("limit", str(limit)), ("cursor", build_cursor(path, last_id))]
    return f"{base}{path.removeprefix('/v1')}?{urlencode(query)}"


def build_cursor(path: str, last_id: int) -> str:
    return signer(path).sign(b62_encode(last_id))


@cache
def signer(path: str) -> Signer:
    """Return the signer of one list: a cursor is valid for one path only."""
    return Signer(sep=".", salt=f"petstore.cursor:{path}")
