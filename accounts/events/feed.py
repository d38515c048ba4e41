"""Queries of the event feed: public events and those of one account, in ascending order of ids (D40)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

import orjson

from accounts.models import EventType
from accounts.models.events import PUBLIC_ACCOUNT_ID
from accounts.quota.limits import to_datetime
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.pagination import MAX_LIMIT
from petstore.db.event_loop.compiled_reads import RawRead

# Each subquery follows one index, so PostgreSQL merges them and reads about a page of rows in total. The
# LIMIT is a literal: with a parameter, PostgreSQL would expect a tenth of all events and never use a
# generic plan.
SUBQUERY = """
SELECT * FROM (SELECT {sort_key} AS sort_key, type, created_at, data, sequenced_at FROM accounts_event
WHERE {condition} AND {sort_key} > %(after)s ORDER BY {sort_key} LIMIT {limit}) AS subquery_{index}
"""
# The expressions of the indexes event_of_account and event_of_account_and_type.
SORT_KEY, SORT_KEY_OF_TYPE = "(id + 0)", "(0 + id)"
# A single statement has a single snapshot, which contains exactly the events up to `last_id`.
PAGE_QUERY = """
SELECT f.last_pruned_id, f.last_id, f.last_sequenced_at,
    CASE WHEN f.last_pruned_id = %(after)s THEN f.last_pruned_sequenced_at
    ELSE (SELECT sequenced_at FROM accounts_event WHERE id = %(after)s) END,
    e.* FROM accounts_feed AS f
LEFT JOIN (SELECT * FROM ({subqueries}) AS merged ORDER BY sort_key LIMIT %(limit)s) AS e ON 1 = 1
ORDER BY e.sort_key
"""
# Bisects for the last event sequenced before `since`, then skips the few that were created before it but
# sequenced after it.
SINCE_QUERY = RawRead("""
WITH RECURSIVE search (low, high) AS (
    SELECT last_pruned_id, last_id + 1 FROM accounts_feed
    UNION ALL
    SELECT CASE WHEN e.sequenced_at < %(since)s THEN e.id ELSE low END,
        CASE WHEN e.sequenced_at < %(since)s THEN high ELSE e.id END
    FROM search JOIN accounts_event AS e ON e.id = (low + high) / 2
    WHERE high - low > 1
), bisection AS (
    SELECT max(low) AS low FROM search
)
SELECT f.last_pruned_sequenced_at, COALESCE((
    SELECT e.id - 1 FROM accounts_event AS e
    WHERE e.id > (SELECT low FROM bisection) AND e.created_at >= %(since)s ORDER BY e.id LIMIT 1
), f.last_id) FROM accounts_feed AS f
""")

TIMESTAMP_BITS = 53  # Microseconds since the epoch, until the year 2255.


class Position(NamedTuple):
    """The position after an event.

    After a failover, or after a backup is restored, the same id may be assigned to another event. The
    sequencing timestamp tells them apart.
    """

    id: int
    sequenced_at: int | None = None  # None if the position was found by time.

    @classmethod
    def from_cursor(cls, cursor: int) -> Position:
        return cls(cursor >> TIMESTAMP_BITS, cursor & (1 << TIMESTAMP_BITS) - 1)

    @property
    def cursor(self) -> int:
        assert self.sequenced_at is not None
        return self.id << TIMESTAMP_BITS | self.sequenced_at


def fetch_page(
    account_id: int, after: Position | None, limit: int, types: Collection[EventType] = ()
) -> tuple[bytes, Position]:
    """Fetch events like `fetch_events`, as a JSON array."""
    events, end = fetch_events(account_id, after, limit, types)
    return orjson.dumps(events, option=orjson.OPT_UTC_Z), end


def fetch_events(
    account_id: int, after: Position | None, limit: int, types: Collection[EventType] = ()
) -> tuple[list[dict[str, Any]], Position]:
    """Fetch the events after a position, or from the oldest stored, filtered by type if `types` is set.

    Returns them with the position of the next page. Raises ApiError 410 if the position is not in the feed,
    for example because events after it were pruned.
    """
    query = compile_page_query(tuple(not kind.is_public for kind in types))
    type_params = {f"type_{index}": kind.value for index, kind in enumerate(types)}
    after_id = after.id if after else 0
    rows = query.fetch_all(account=account_id, after=after_id, limit=limit, **type_params)
    last_pruned_id, last_id, last_sequenced_at, after_sequenced_at = rows[0][:4]
    if after is not None:
        id_was_reassigned = after.sequenced_at not in {None, after_sequenced_at}
        if id_was_reassigned or not last_pruned_id <= after.id <= last_id:
            raise ApiError(ErrorCode.CURSOR_EXPIRED)
    page = [row[4:] for row in rows if row[4] is not None]
    if len(page) == limit:
        last_id, *_, last_sequenced_at = page[-1]
    return [serialize_event(*event[:4]) for event in page], Position(last_id, last_sequenced_at)


def find_id_before(since: int) -> int:
    """Find the id before the first event since a time. Raises ApiError 410 if later events were pruned."""
    ((last_pruned_sequenced_at, event_id),) = SINCE_QUERY.fetch_all(since=since)
    if since <= last_pruned_sequenced_at:
        raise ApiError(ErrorCode.CURSOR_EXPIRED)
    return int(event_id)


def serialize_event(event_id: int, kind: str, created_at: int, data: str) -> dict[str, Any]:
    timestamp = to_datetime(created_at)
    return {"id": event_id, "type": kind, "createdAt": timestamp, "data": orjson.Fragment(data)}


@cache
def compile_page_query(private_types: tuple[bool, ...]) -> RawRead:
    """Compile the query for all types, or for some types, each of which is private or public."""
    if private_types:
        sort_key = SORT_KEY_OF_TYPE
        conditions = [
            f"account_id = {'%(account)s' if is_private else PUBLIC_ACCOUNT_ID} AND type = %(type_{index})s"
            for index, is_private in enumerate(private_types)
        ]
    else:
        sort_key = SORT_KEY
        conditions = ["account_id = %(account)s", f"account_id = {PUBLIC_ACCOUNT_ID}"]
    subqueries = " UNION ALL ".join(
        SUBQUERY.format(sort_key=sort_key, condition=condition, limit=MAX_LIMIT, index=index)
        for index, condition in enumerate(conditions)
    )
    return RawRead(PAGE_QUERY.format(subqueries=subqueries))
