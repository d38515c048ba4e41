"""Operations that will be removed, and the headers that say so."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import NamedTuple

from django.utils.http import http_date

from petstore.api.link_header import add_link
from petstore.api.responses import Response


class Deprecation(NamedTuple):
    """That an operation will be removed; every answer of it says so (D33)."""

    operation: str  # Its name in the contract: who still calls it is counted under that.
    since: datetime
    removed: datetime
    successor: str  # A URL.

    def announce(self, response: Response) -> None:
        """Write Deprecation (RFC 9745), Sunset (RFC 8594) and the link to the successor."""
        response.headers |= dates_of(self)
        add_link(response, self.successor, "successor-version")


@cache
def dates_of(deprecation: Deprecation) -> dict[str, str]:
    """Return the headers that are the same on every answer."""
    return {
        "Deprecation": f"@{int(deprecation.since.timestamp())}",
        "Sunset": http_date(deprecation.removed.timestamp()),
    }
