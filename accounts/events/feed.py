"""Reads the feed: an account's own events and the public ones, by ascending id (D40)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

import orjson

from accounts.models import EventType
from accounts.quota.limits import moment
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.pagination import MAX_LIMIT
from petstore.event_loop.compiled_reads import RawRead

# Each part is in the order of one index, and all have its expression as their `place`: PostgreSQL merges
# them, and reads but a page of rows in all, however many events and types there are.
ALL = "(id + 0)", "account_id = {account}"
OF_TYPE = "(0 + id)", "account_id = {account} AND type = %({name})s"
PART = """
SELECT * FROM (SELECT {place} AS place, type, created_at, data, numbered_at FROM accounts_event
WHERE {condition} AND {place} > %(after)s ORDER BY {place} LIMIT {limit}) AS part_{number}
"""
# One statement sees one moment: all events up to `last_id`, and none beyond. The most that a part may read
# is in its text, or PostgreSQL would plan for a tenth of all events, and so plan anew each time.
PAGE = """
SELECT f.cleared_id, f.last_id, f.numbered_at, CASE WHEN f.cleared_id = %(after)s THEN f.cleared_at
    ELSE (SELECT numbered_at FROM accounts_event WHERE id = %(after)s) END,
    e.* FROM accounts_feed AS f
LEFT JOIN (SELECT * FROM ({parts}) AS parts ORDER BY place LIMIT %(limit)s) AS e ON 1 = 1 ORDER BY e.place
"""
# The last event that was numbered before a time, by bisection; then past those that happened before it and
# were numbered after it, which are few.
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


class Place(NamedTuple):
    """The place after an event, whose id may have been another's.

    So it was before a backup was restored, or before a standby that lacked the last events took over. When
    the event was numbered tells which it is.
    """

    id: int
    at: int | None = None  # None: nobody has been there before.

    @classmethod
    def of_cursor(cls, number: int) -> Place:
        return cls(number >> TIME_BITS, number & (1 << TIME_BITS) - 1)

    @property
    def cursor(self) -> int:
        """The number in a cursor."""
        assert self.at is not None
        return self.id << TIME_BITS | self.at


class Page(NamedTuple):
    events: bytes  # As JSON: an array of the API's Event.
    end: Place  # Where to go on: after the last event of a full page, else after the newest of all.


def page(account_id: int, after: Place | None, limit: int, types: Collection[EventType] = ()) -> Page:
    """Return events after a place, by default from the oldest that is kept, of these types or of all.

    Raises ApiError 410 if events after that place are gone, or it is none of this feed.
    """
    wanted = {f"type_{number}": kind.value for number, kind in enumerate(types)}
    own = tuple(not kind.is_public for kind in types)
    after_id = after.id if after else 0
    rows = statement(own).rows(account=account_id, after=after_id, limit=limit, **wanted)
    cleared_id, last_id, last_at, after_at = rows[0][:4]
    if after is not None and (not cleared_id <= after.id <= last_id or after.at not in {None, after_at}):
        raise ApiError(ErrorCode.CURSOR_EXPIRED)
    found = [row[4:] for row in rows if row[4] is not None]
    end = Place(found[-1][0], found[-1][4]) if len(found) == limit else Place(last_id, last_at)
    return Page(orjson.dumps([as_json(row[:4]) for row in found], option=orjson.OPT_UTC_Z), end)


def before(since: int) -> int:
    """Return the id after which those events come that happened at a time (in microseconds) or later.

    Raises ApiError 410 if some of them are gone.
    """
    ((cleared_at, after),) = SINCE.rows(since=since)
    if since <= cleared_at:
        raise ApiError(ErrorCode.CURSOR_EXPIRED)
    return int(after)


def as_json(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return the API's Event. Its data is JSON already."""
    number, kind, created_at, data = row
    return {"id": number, "type": kind, "createdAt": moment(created_at), "data": orjson.Fragment(data)}


@cache
def statement(own: tuple[bool, ...]) -> RawRead:
    """Return the read of events of all types, or of these, each own or public."""
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
