"""Routes reads to a replica if the account cannot notice the difference, else to the primary.

Each account reads its own writes on every machine, and data is at most REPLICA_MAX_LAG seconds old:

1. The monitor polls the primary's WAL position, with the timestamp before the query: everything committed
   before the timestamp is before that position. A replica that has replayed up to it shows all of that. Its
   lag is the time since the newest such timestamp. Replicas that lag more than that are not read.
2. For each request that may write, the quota script in Redis records the account's write time, and tells
   every request how long ago it was. A request that took longer than WRITE_SECONDS is recorded again before
   its response. So an acknowledged write was committed at most WRITE_SECONDS after the recorded time.
3. Only accounts whose recorded write is more than WRITE_SECONDS + REPLICA_MAX_LAG ago read from a replica:
   the write was committed more than REPLICA_MAX_LAG ago, so by 1. the replica shows it.

Each interval is measured by a single clock, the worker's or Redis's, so clocks need not agree. If Redis has
no record (it restarted, it was unavailable), the account counts as having just written. Only a worker that
can't reach Redis while others can leaves a write unrecorded: the others may then show the previous state
for the replica's actual lag, usually milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error
from prometheus_client import Counter

from petstore.db import monitor

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

WRITE_SECONDS = 1
SECOND = 1_000_000  # Microseconds.

ALIASES = tuple(alias for alias in settings.DATABASES if alias != DEFAULT_DB_ALIAS)

READS = Counter("petstore_reads_total", "Reads of the API where there are replicas.", ["database"])
FAILED_READS = Counter(
    "petstore_replica_reads_failed_total",
    "Reads that a replica failed and the primary answered.",
    ["database"],
)


def get_pinning_period() -> int:
    """Return the microseconds for which an account reads the primary after a write."""
    return (WRITE_SECONDS + settings.REPLICA_MAX_LAG) * SECOND


def choose_alias(account_id: int, time_since_write: int) -> str:
    """Choose the database for an account's reads; `time_since_write` is in microseconds.

    An account stays with one replica while that is healthy, so its reads stay monotonic.
    """
    if not ALIASES or time_since_write <= get_pinning_period():
        return DEFAULT_DB_ALIAS
    healthy = [alias for alias in ALIASES if get_state(alias) == "ok"]
    return healthy[account_id % len(healthy)] if healthy else DEFAULT_DB_ALIAS


def read(alias: str, run: Callable[..., Result], *rest: Any) -> Result:
    """Call `run` with an alias and the rest; if a replica fails, again with the primary."""
    if not ALIASES:
        return run(alias, *rest)
    if alias != DEFAULT_DB_ALIAS:
        try:
            result = run(alias, *rest)
        except Error as error:  # Unavailable, a conflict with replay, or a new table.
            FAILED_READS.labels(alias).inc()
            logger.warning("A read on %s failed and is retried on the primary: %s", alias, error)
        else:
            READS.labels(alias).inc()
            return result
    READS.labels(DEFAULT_DB_ALIAS).inc()
    return run(DEFAULT_DB_ALIAS, *rest)


def get_state(alias: str) -> str:
    """`ok`, `behind` or `away`."""
    replica = monitor.servers.get(alias)
    if replica is None or replica.unavailable:
        return "away"
    return "ok" if replica.lag <= settings.REPLICA_MAX_LAG else "behind"


def get_states() -> dict[str, str]:
    return {alias: get_state(alias) for alias in ALIASES}
