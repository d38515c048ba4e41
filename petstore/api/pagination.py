"""Keyset pages: the next one starts after the last id, so every page costs the same (D9)."""

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
    """What a query string asks for."""

    where: dict[str, Any]  # Of a `Read`.
    limit: int
    filters: tuple[tuple[str, str], ...]  # As the next page's URL repeats them.


class KeysetPagination(BasePagination):
    """A bare array of rows in ascending `id`; the next page's URL is in the Link header.

    The cursor is the last id, signed for its path, so a changed one is refused rather than obeyed.
    """

    next_url: str | None = None

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        """Take the name of the database that is read."""
        self._using = using

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """Return those of a `Read` that the view's filters keep, one page of them. Raises ApiError 400."""
        path, query = request.path_info, request.META.get("QUERY_STRING", "")
        read = parse_page_query if len(query) <= MAX_CACHED_QUERY else parse_page_query.__wrapped__
        asked = read(view.filters, path, query)
        rows: list[Any] = queryset.where(**asked.where).first(asked.limit + 1, self._using)
        if len(rows) > asked.limit:
            rows.pop()
            # From BASE_URL and never from the Host header (D10).
            self.next_url = page_url(settings.BASE_URL, path, asked.filters, asked.limit, rows[-1]["id"])
        return rows

    def get_paginated_response(self, data: list[Any]) -> Any:
        """Return the page, with `Link: rel="next"` if another follows."""
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


@lru_cache(maxsize=1024)  # Clients ask for the same again, and reading it took a tenth of a request.
def parse_page_query(filters: Filters, path: str, query: str) -> PageQuery:
    """Return what a query string (as WSGI has it) asks for. Raises ApiError 400."""
    parameters = QueryDict(query.encode("latin-1"))
    values = filter_values(parameters, filters)
    where = {one.column: value for one, value in values.items()}
    limit = bounded(parameters, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    after = cursor_in(parameters, path)
    if after is not None:
        where["keyset__gt"] = after
    return PageQuery(where, limit, tuple((one.name, str(value)) for one, value in values.items()))


def cursor_in(parameters: QueryDict, path: str) -> int | None:
    """Return the id that a page begins after, or None without a cursor. Raises ApiError 400."""
    cursor = single(parameters, "cursor")
    if cursor is None:
        return None
    try:
        return b62_decode(signer(path).unsign(cursor))
    except BadSignature:
        raise invalid_parameter(
            '`cursor` is not one that this list gave. Take it from Link: rel="next".'
        ) from None


@lru_cache(maxsize=1024)  # First pages are asked for most, and signing took a tenth of a request.
def page_url(base: str, path: str, filters: tuple[tuple[str, str], ...], limit: int, last_id: int) -> str:
    """Return the URL of the page after an id."""
    query = [*filters, ("limit", str(limit)), ("cursor", cursor_after(path, last_id))]
    return f"{base}{path.removeprefix('/v1')}?{urlencode(query)}"


def cursor_after(path: str, last_id: int) -> str:
    return signer(path).sign(b62_encode(last_id))


@cache
def signer(path: str) -> Signer:
    """Return the signer of one list's cursors: a cursor of pets is none of orders."""
    return Signer(sep=".", salt=f"petstore.cursor:{path}")
