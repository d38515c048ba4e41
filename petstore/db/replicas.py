"""Routes reads to a replica if the account has no recent writes, and to the primary otherwise.

Each account reads its own writes on every machine, and data is at most REPLICA_MAX_LAG seconds old:

1. The monitor takes a timestamp and then reads the primary's WAL position. Everything committed before the
   timestamp precedes that position, so a replica that has replayed up to it shows all of that. The lag of a
   replica is the time since the newest such timestamp. Replicas that lag more than REPLICA_MAX_LAG are not
   read.
2. For each request that may write, the statement that counts it records the account's write time. It also
   tells every request how long ago that was. A request that took longer than WRITE_SECONDS is recorded
   again before its response. An acknowledged write was therefore committed at most WRITE_SECONDS after the
   recorded time.
3. An account reads from a replica only if its recorded write is more than WRITE_SECONDS + REPLICA_MAX_LAG
   ago. The write was then committed more than REPLICA_MAX_LAG ago, so the replica shows it, according to 1.

Each interval is measured by a single clock, the worker's or the primary's, so the clocks don't have to
agree.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error
from prometheus_client import Counter

from petstore.db import monitor

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

WRITE_SECONDS = 1
SECOND = 1_000_000  # Microseconds.

READS = Counter(
    "petstore_reads_total", "Reads of the API by database, if there are replicas.", ["database"]
)
FAILED_READS = Counter(
    "petstore_replica_reads_failed_total",
    "Reads that failed on a replica and were retried on the primary.",
    ["database"],
)


@cache
def get_aliases() -> tuple[str, ...]:
    return tuple(alias for alias in settings.DATABASES if alias != DEFAULT_DB_ALIAS)


def choose_alias(account_id: int, time_since_write: int) -> str:
    """Choose the database for an account's reads. `time_since_write` is in microseconds.

    Until the set of healthy replicas changes, an account uses the same one, so its reads are monotonic.
    """
    if not get_aliases() or time_since_write <= (WRITE_SECONDS + settings.REPLICA_MAX_LAG) * SECOND:
        return DEFAULT_DB_ALIAS
    healthy = [alias for alias in get_aliases() if get_state(alias) == "ok"]
    return healthy[account_id % len(healthy)] if healthy else DEFAULT_DB_ALIAS


def read(alias: str, run: Callable[..., Result], *arguments: Any) -> Result:
    """Call `run` with the alias and the arguments. If a replica fails, call it again for the primary."""
    if not get_aliases():
        return run(alias, *arguments)
    if alias != DEFAULT_DB_ALIAS:
        try:
            result = run(alias, *arguments)
            READS.labels(alias).inc()
            return result
        except Error as error:  # The replica may be unavailable, cancel the query, or lack a new table.
            FAILED_READS.labels(alias).inc()
            logger.warning("A read on %s failed and is retried on the primary: %s", alias, error)
    READS.labels(DEFAULT_DB_ALIAS).inc()
    return run(DEFAULT_DB_ALIAS, *arguments)


def get_state(alias: str) -> str:
    """Return `ok`, `lagging` or `unavailable`."""
    replica = monitor.servers.get(alias)
    if replica is None or replica.unavailable:
        return "unavailable"
    return "ok" if replica.lag <= settings.REPLICA_MAX_LAG else "lagging"


def get_states() -> dict[str, str]:
    return {alias: get_state(alias) for alias in get_aliases()}
