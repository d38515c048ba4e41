"""GET /v1/events."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from accounts.events import feed
from accounts.keys.identity import get_caller
from accounts.keys.scopes import EVENTS_READ
from accounts.models import Event, EventType
from accounts.quota.limits import to_microseconds
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.pagination import DEFAULT_LIMIT, MAX_LIMIT, page_url, parse_cursor
from petstore.api.query_params import bounded, invalid_parameter, single
from petstore.api.responses import Response
from petstore.api.views import ApiView

DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)  # RFC 3339
# Filters: each type, and each prefix with its types; `pet` includes `pets.imported`.
TYPES = {
    prefix: tuple(kind for kind in EventType if kind.value.startswith(prefix))
    for kind in EventType
    for prefix in (kind.value, kind.value.partition(".")[0])
}


class EventViewSet(ApiView, GenericViewSet[Event]):
    queryset = Event.objects.all()
    required_scopes = {"list": EVENTS_READ}

    def list(self, request: Request) -> Response:
        """One page. Always has a link to the next one."""
        path, parameters = request.path_info, request.query_params
        kind, since = single(parameters, "type"), single(parameters, "since")
        if kind is not None and kind not in TYPES:
            raise invalid_parameter(f"`type` must be one of {', '.join(TYPES)}.")
        limit = bounded(parameters, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        begins_at = None if since is None else time_in(since)
        cursor = parse_cursor(parameters, path)
        if begins_at is not None and cursor is not None:
            raise invalid_parameter("`since` is for a first call. With `cursor` leave it out.")
        after = None if cursor is None else feed.Position.from_cursor(cursor)
        if begins_at is not None:
            if begins_at < to_microseconds(timezone.now() - timedelta(days=settings.EVENTS_KEPT_DAYS)):
                raise ApiError(ErrorCode.CURSOR_EXPIRED)
            after = feed.Position(feed.find_id_before(begins_at))
        page = feed.fetch_page(get_caller(request).account_id, after, limit, TYPES[kind] if kind else ())
        filters = (("type", kind),) if kind else ()
        url = page_url(settings.BASE_URL, path, filters, limit, page.end.cursor)
        return Response.of_bytes(page.events, 200, {"Link": f'<{url}>; rel="next"'})


def time_in(text: str) -> int:
    """Parse an RFC 3339 date-time to microseconds. Raises ApiError 400."""
    if " " in text and DATE_TIME.fullmatch(text.replace(" ", "+")):
        raise invalid_parameter(
            "`since` has a space where its offset begins: a `+` in a query means a space. Write it as %2B, "
            "such as 2026-11-23T09:30:00%2B01:00."
        )
    try:
        if not DATE_TIME.fullmatch(text):
            raise ValueError(text)
        return to_microseconds(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        raise invalid_parameter(
            "`since` must be an RFC 3339 date-time, such as 2026-11-23T09:30:00Z."
        ) from None
