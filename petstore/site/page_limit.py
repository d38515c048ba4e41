"""The limit of pages for each client network (PAGES_PER_MINUTE).

A flood must not reach the database, so each machine counts by itself.
"""

import math
import time
from pathlib import Path

from django.conf import settings

from petstore.api.local_counters import LocalCounters

MICROSECONDS = 1_000_000
page_counters = LocalCounters(Path(settings.COUNTERS_DIR) / "pages", settings.SECRET_KEY, 60 * MICROSECONDS)


def count_page(network: str, increment: int = 1) -> int:
    """Count a page, if `increment` is 1. Returns the seconds to wait over the limit, else 0."""
    now = time.time_ns() // 1000
    used, ends_at = page_counters.count(network, now, increment)
    return math.ceil((ends_at - now) / MICROSECONDS) if used > settings.PAGES_PER_MINUTE else 0
