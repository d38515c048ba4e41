"""Which database a read goes to: a streaming standby where that can't be noticed, else the primary.

An account reads its own writes, on whatever machine, and nobody reads what is older than REPLICA_MAX_LAG:

1. The watch asks the primary how far its write-ahead log goes, and notes the answer with the moment before
   it asked: whatever was committed before that moment lies before that place in the log. A replica that has
   replayed up to there shows all of it. Its lag is the time since the newest such moment, and one that is
   further behind than REPLICA_MAX_LAG seconds is not read.
2. With each request that may write, the quota's own step in Redis notes the time for the account, and
   every request learns in the same step how long ago that was. A request that took longer than
   WRITE_SECONDS is noted once more, before it is answered. So a write whose answer the account has seen was
   committed at most WRITE_SECONDS after the time that is noted.
3. A replica is read only by accounts whose last write was noted more than WRITE_SECONDS + REPLICA_MAX_LAG
   ago: it was committed more than REPLICA_MAX_LAG ago, and by 1. the replica shows it.

Both spans are measured by one clock each, the worker's and Redis's, so no two clocks need to agree. What
Redis does not know (it started anew, it was away) counts as a write just now. Only a worker that can't
reach Redis while others can leaves a write unnoted: then one of the others may show the state before it,
for as long as the replica's true lag, mostly some milliseconds.
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
SECOND = 1_000_000  # In microseconds.

ALIASES = tuple(alias for alias in settings.DATABASES if alias != DEFAULT_DB_ALIAS)

READS = Counter("petstore_reads_total", "Reads of the API where there are replicas.", ["database"])
FAILED_READS = Counter(
    "petstore_replica_reads_failed_total",
    "Reads that a replica failed and the primary answered.",
    ["database"],
)


def hold() -> int:
    """Return for how long an account that wrote reads the primary, in microseconds."""
    return (WRITE_SECONDS + settings.REPLICA_MAX_LAG) * SECOND


def alias_for_read(account_id: int, since_write: int) -> str:
    """Return the database for a read of an account whose last write was noted so many microseconds ago.

    An account stays with one replica while that is well, so that time never goes back for it.
    """
    if not ALIASES or since_write <= hold():
        return DEFAULT_DB_ALIAS
    well = [alias for alias in ALIASES if state(alias) == "ok"]
    return well[account_id % len(well)] if well else DEFAULT_DB_ALIAS


def read(alias: str, run: Callable[..., Result], *rest: Any) -> Result:
    """Return what `run` reads, given an alias and the rest; if a replica fails, on the primary."""
    if not ALIASES:
        return run(alias, *rest)
    if alias != DEFAULT_DB_ALIAS:
        try:
            result = run(alias, *rest)
        except Error as error:  # It went away, or replay cancelled the statement, or lacks a new table.
            FAILED_READS.labels(alias).inc()
            logger.warning("A read on %s failed, the primary is asked: %s", alias, error)
        else:
            READS.labels(alias).inc()
            return result
    READS.labels(DEFAULT_DB_ALIAS).inc()
    return run(DEFAULT_DB_ALIAS, *rest)


def state(alias: str) -> str:
    """Return `ok`, `behind`, or `away`."""
    replica = monitor.servers.get(alias)
    if replica is None or replica.away:
        return "away"
    return "ok" if replica.lag <= settings.REPLICA_MAX_LAG else "behind"


def states() -> dict[str, str]:
    return {alias: state(alias) for alias in ALIASES}
