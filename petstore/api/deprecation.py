"""Deprecated operations and their headers."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import NamedTuple

from django.utils.http import http_date

from petstore.api.link_header import add_link
from petstore.api.responses import Response


class Deprecation(NamedTuple):
    """A planned removal of an operation; every response announces it (D33)."""

    operation: str  # The operation id; its remaining callers are counted under it.
    since: datetime
    removed: datetime
    successor: str  # A URL.

    def announce(self, response: Response) -> None:
        """Add Deprecation (RFC 9745), Sunset (RFC 8594) and the link to the successor."""
        response.headers |= dates_of(self)
        add_link(response, self.successor, "successor-version")


@cache
def dates_of(deprecation: Deprecation) -> dict[str, str]:
    return {
        "Deprecation": f"@{int(deprecation.since.timestamp())}",
        "Sunset": http_date(deprecation.removed.timestamp()),
    }
