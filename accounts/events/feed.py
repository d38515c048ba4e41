"""Reads the feed: public events and an account's own, by ascending sequence number (D40)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

import orjson

from accounts.models import EventType
from accounts.quota.limits import to_datetime
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.pagination import MAX_LIMIT
from petstore.event_loop.compiled_reads import RawRead

# Each part follows one index whose expression is its `place`, so PostgreSQL merges the parts and reads
# about a page of rows in total.
ALL = "(id + 0)", "account_id = {account}"
OF_TYPE = "(0 + id)", "account_id = {account} AND type = %({name})s"
PART = """
SELECT * FROM (SELECT {place} AS place, type, created_at, data, numbered_at FROM accounts_event
WHERE {condition} AND {place} > %(after)s ORDER BY {place} LIMIT {limit}) AS part_{number}
"""
# One statement has one snapshot: all events up to `last_id`, none beyond. The LIMIT of a part is a literal:
# with a parameter, PostgreSQL would assume a tenth of all events and never use a generic plan.
PAGE = """
SELECT f.cleared_id, f.last_id, f.numbered_at, CASE WHEN f.cleared_id = %(after)s THEN f.cleared_at
    ELSE (SELECT numbered_at FROM accounts_event WHERE id = %(after)s) END,
    e.* FROM accounts_feed AS f
LEFT JOIN (SELECT * FROM ({parts}) AS parts ORDER BY place LIMIT %(limit)s) AS e ON 1 = 1 ORDER BY e.place
"""
# Bisects for the last event sequenced before `since`, then skips the few that were created before it but
# sequenced after it.
SINCE = RawRead("""
WITH RECURSIVE search (low, high) AS (
    SELECT cleared_id, last_id + 1 FROM accounts_feed
    UNION ALL
    SELECT CASE WHEN e.numbered_at < %(since)s THEN e.id ELSE low END,
        CASE WHEN e.numbered_at < %(since)s THEN high ELSE e.id END
    FROM search JOIN accounts_event AS e ON e.id = (low + high) / 2
    WHERE high - low > 1
), found AS (
    SELECT max(low) AS low FROM search
)
SELECT f.cleared_at, COALESCE((
    SELECT e.id - 1 FROM accounts_event AS e
    WHERE e.id > (SELECT low FROM found) AND e.created_at >= %(since)s ORDER BY e.id LIMIT 1
), f.last_id) FROM accounts_feed AS f
""")

TIME_BITS = 53  # Of microseconds since the epoch, until the year 2255.


class Position(NamedTuple):
    """The position after an event.

    After a restored backup or a failover, an id may be assigned again to another event. The time of
    sequencing tells them apart.
    """

    id: int
    at: int | None = None  # None for a first call.

    @classmethod
    def from_cursor(cls, number: int) -> Position:
        return cls(number >> TIME_BITS, number & (1 << TIME_BITS) - 1)

    @property
    def cursor(self) -> int:
        assert self.at is not None
        return self.id << TIME_BITS | self.at


class Page(NamedTuple):
    events: bytes  # As JSON: an array of the API's Event.
    end: Position  # After the last event of a full page, else after the newest of the feed.


def fetch_page(
    account_id: int, after: Position | None, limit: int, types: Collection[EventType] = ()
) -> Page:
    """Events after a position, by default from the oldest stored, of these types or of all.

    Raises ApiError 410 if the position is not in the feed (any more).
    """
    wanted = {f"type_{number}": kind.value for number, kind in enumerate(types)}
    own = tuple(not kind.is_public for kind in types)
    after_id = after.id if after else 0
    rows = compile_page_query(own).fetch_all(account=account_id, after=after_id, limit=limit, **wanted)
    cleared_id, last_id, last_at, after_at = rows[0][:4]
    if after is not None and (not cleared_id <= after.id <= last_id or after.at not in {None, after_at}):
        raise ApiError(ErrorCode.CURSOR_EXPIRED)
    found = [row[4:] for row in rows if row[4] is not None]
    end = Position(found[-1][0], found[-1][4]) if len(found) == limit else Position(last_id, last_at)
    return Page(orjson.dumps([serialize_event(row[:4]) for row in found], option=orjson.OPT_UTC_Z), end)


def find_id_before(since: int) -> int:
    """Find the id before the first event since a time, in microseconds since the epoch.

    Raises ApiError 410 if some of the events since then are pruned.
    """
    ((cleared_at, after),) = SINCE.fetch_all(since=since)
    if since <= cleared_at:
        raise ApiError(ErrorCode.CURSOR_EXPIRED)
    return int(after)


def serialize_event(row: tuple[Any, ...]) -> dict[str, Any]:
    number, kind, created_at, data = row
    return {"id": number, "type": kind, "createdAt": to_datetime(created_at), "data": orjson.Fragment(data)}


@cache
def compile_page_query(own: tuple[bool, ...]) -> RawRead:
    """Compile the query for all types, or for as many types as `own` has items: own or public ones."""
    if own:
        place, condition = OF_TYPE
        conditions = [
            condition.format(account="%(account)s" if mine else "0", name=f"type_{number}")
            for number, mine in enumerate(own)
        ]
    else:
        place, condition = ALL
        conditions = [condition.format(account=account) for account in ("%(account)s", "0")]
    parts = " UNION ALL ".join(
        PART.format(place=place, condition=one, limit=MAX_LIMIT, number=number)
        for number, one in enumerate(conditions)
    )
    return RawRead(PAGE.format(parts=parts))
