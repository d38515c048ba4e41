"""Deprecated operations and their headers. Their dates, such as GET_PET_REMOVED_AT, are settings."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import NamedTuple

from django.utils.http import http_date

from petstore.api.link_header import format_link
from petstore.api.responses import Response


class Deprecation(NamedTuple):
    """The planned removal of an operation, which each of its responses announces (D33)."""

    operation: str  # The operation ID, under which the remaining calls are counted.
    since: datetime
    removed: datetime
    successor: str  # Its URL.

    def add_headers(self, response: Response) -> None:
        """Add Deprecation (RFC 9745), Sunset (RFC 8594) and the link to the successor."""
        response.headers |= _build_date_headers(self)
        link = format_link(self.successor, "successor-version")
        response.headers["Link"] = ", ".join(filter(None, [response.headers.get("Link"), link]))


@cache
def _build_date_headers(deprecation: Deprecation) -> dict[str, str]:
    return {
        "Deprecation": f"@{int(deprecation.since.timestamp())}",
        "Sunset": http_date(deprecation.removed.timestamp()),
    }
