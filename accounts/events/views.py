"""GET /v1/events."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from accounts.events import feed
from accounts.keys.identity import get_caller
from accounts.keys.scopes import EVENTS_READ
from accounts.models.events import TYPES
from accounts.quota.limits import to_microseconds
from petstore.api.errors import ApiError, ErrorCode, invalid_parameter
from petstore.api.link_header import format_link
from petstore.api.pagination import DEFAULT_LIMIT, MAX_LIMIT, build_next_url, parse_cursor
from petstore.api.query_params import get_bounded_integer, get_single_value
from petstore.api.responses import Response
from petstore.api.views import ApiView

DATE_TIME = re.compile(r"(?a)\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")  # RFC 3339


class EventViewSet(ViewSetMixin, ApiView):
    required_scopes = {"list": EVENTS_READ}

    def list(self, request: Request) -> Response:
        """List one page of events. Every page links to the next, even an empty one."""
        path, params = request.path_info, request.query_params
        event_type = get_single_value(params, "type")
        if event_type is not None and event_type not in TYPES:
            raise invalid_parameter(f"`type` must be one of {', '.join(TYPES)}.")
        limit = get_bounded_integer(params, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        since = get_single_value(params, "since")
        start_time = None if since is None else parse_since(since)
        cursor = parse_cursor(params, path)
        if start_time is not None and cursor is not None:
            raise invalid_parameter(
                "`since` cannot be combined with `cursor`. Send it with the first request only."
            )
        start = find_start(start_time, cursor)
        types, filters = (TYPES[event_type], (("type", event_type),)) if event_type else ((), ())
        events, end = feed.fetch_page(get_caller(request).account_id, start, limit, types)
        url = build_next_url(settings.BASE_URL, path, filters, limit, end.cursor)
        return Response.from_bytes(events, 200, {"Link": format_link(url, "next")})


def find_start(start_time: int | None, cursor: int | None) -> feed.Position | None:
    """Find where the page starts, or None for the oldest stored event. Raises ApiError 410."""
    if cursor is not None:
        return feed.Position.from_cursor(cursor)
    if start_time is None:
        return None
    if start_time < to_microseconds(timezone.now() - timedelta(days=settings.EVENT_RETENTION_DAYS)):
        raise ApiError(ErrorCode.CURSOR_EXPIRED)
    return feed.Position(feed.find_id_before(start_time))


def parse_since(text: str) -> int:
    """Parse an RFC 3339 date-time to microseconds since the epoch. Raises ApiError 400."""
    if " " in text and DATE_TIME.fullmatch(text.replace(" ", "+")):
        raise invalid_parameter(
            "`since` contains a space before its offset, because a `+` in a query string means a space. "
            "Write the `+` as %2B, for example 2026-11-23T09:30:00%2B01:00."
        )
    try:
        if not DATE_TIME.fullmatch(text):
            raise ValueError(text)
        return to_microseconds(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        raise invalid_parameter(
            "`since` must be an RFC 3339 date-time, for example 2026-11-23T09:30:00Z."
        ) from None
