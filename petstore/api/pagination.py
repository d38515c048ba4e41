"""Keyset pagination: pages start after an id instead of at an offset, so deep pages cost no more (D9)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.core.signing import BadSignature, Signer, b62_decode, b62_encode
from django.db.models import QuerySet
from django.http import QueryDict
from rest_framework.pagination import BasePagination
from rest_framework.request import Request

from petstore.api.errors import invalid_parameter
from petstore.api.link_header import format_link
from petstore.api.query_params import Filters, get_bounded_integer, get_single_value
from petstore.api.responses import Response
from petstore.db import replicas
from petstore.db.event_loop.compiled_reads import Read

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_CACHED_QUERY = 250  # Characters. Longer query strings are parsed each time.

Rows = Read | QuerySet[Any, Any]


class PageQuery(NamedTuple):
    conditions: dict[str, Any]  # The values of the filters, by column.
    after: int | None  # The id that the page starts after.
    limit: int
    filters: tuple[tuple[str, str], ...]  # Names and values, for the URL of the next page.


class KeysetPagination(BasePagination):
    """A page is a bare array in ascending order of `id`. Its Link has the URL of the next page, if any."""

    link = ""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> Any:
        """Return the requested page, read from the database of the caller's account.

        `queryset` is a `Read`, or a QuerySet, which is sorted by primary key.
        """
        path, query = request.path_info, request.META.get("QUERY_STRING", "")
        parse = parse_page_query if len(query) <= MAX_CACHED_QUERY else parse_page_query.__wrapped__
        conditions, after, limit, sent_filters = parse(view.filters, path, query)
        caller: Any = request.user
        fetch = fetch_read if isinstance(queryset, Read) else fetch_queryset
        page = fetch(queryset, conditions, after, limit + 1, caller.database)
        if len(page) > limit:
            page.pop()
            last_id = page[-1]["id"] if isinstance(page[-1], dict) else page[-1].pk
            base = settings.BASE_URL  # Never from the Host header (D10).
            self.link = format_link(build_next_url(base, path, sent_filters, limit, last_id), "next")
        return page

    def get_paginated_response(self, data: Any) -> Any:
        return Response(data, headers={"Link": self.link} if self.link else {})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return schema

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            *(list_filter.build_parameter() for list_filter in view.filters),
            {
                "name": "limit",
                "in": "query",
                "description": "The maximum number of items on the page.",
                "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
                "example": DEFAULT_LIMIT,
            },
            {
                "name": "cursor",
                "in": "query",
                "description": 'Where the page starts, taken from `Link: rel="next"` of the previous page.',
                "schema": {"type": "string", "minLength": 1},
            },
        ]


@lru_cache(maxsize=1024)
def parse_page_query(filters: Filters, path: str, query: str) -> PageQuery:
    """Parse a query string, which WSGI decodes as Latin-1. Raises ApiError or TooManyFieldsSent."""
    parameters = QueryDict(query.encode("latin-1"))
    conditions, sent = {}, []
    for list_filter in filters:
        text = get_single_value(parameters, list_filter.name)
        if text is not None:
            conditions[list_filter.column] = value = list_filter.parse(text)
            sent.append((list_filter.name, str(value)))
    limit = get_bounded_integer(parameters, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    return PageQuery(conditions, parse_cursor(parameters, path), limit, tuple(sent))


def fetch_read(
    rows: Read, conditions: dict[str, Any], after: int | None, count: int, database: str
) -> list[dict[str, Any]]:
    if after is not None:
        conditions = conditions | {"keyset__gt": after}
    return rows.where(**conditions).fetch(count, database)


def fetch_queryset(
    rows: QuerySet[Any, Any], conditions: dict[str, Any], after: int | None, count: int, database: str
) -> list[Any]:
    if after is not None:
        conditions = conditions | {"pk__gt": after}
    rows = rows.filter(**conditions).order_by("pk")[:count]
    return replicas.read(database, lambda alias: list(rows.using(alias)))


def parse_cursor(parameters: QueryDict, path: str) -> int | None:
    """Return the id that the page starts after, or None without a cursor. Raises ApiError 400."""
    cursor = get_single_value(parameters, "cursor")
    if cursor is None:
        return None
    try:
        return b62_decode(_get_signer(path).unsign(cursor))
    except BadSignature:
        raise invalid_parameter(
            '`cursor` does not belong to this list. Take it from Link: rel="next".'
        ) from None


@lru_cache(maxsize=1024)  # Signing is slow, and first pages are requested most often.
def build_next_url(
    base: str, path: str, filters: tuple[tuple[str, str], ...], limit: int, last_id: int
) -> str:
    query = [*filters, ("limit", str(limit)), ("cursor", build_cursor(path, last_id))]
    return f"{base}{path.removeprefix('/v1')}?{urlencode(query)}"


def build_cursor(path: str, last_id: int) -> str:
    """Sign the last id of a page for its path, so that clients can't forge a cursor."""
    return _get_signer(path).sign(b62_encode(last_id))


@lru_cache(maxsize=1024)
def _get_signer(path: str) -> Signer:
    # A cursor is valid for one path only.
    return Signer(sep=".", salt=f"petstore.cursor:{path}")
