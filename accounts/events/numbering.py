"""Gives committed events their places in the feed.

Each process that serves looks several times a second, and one at a time moves what it sees from the drafts
to the feed. A transaction that is still open delays its own events and no others, however long it takes.
The move is one transaction, so a process that is killed leaves nothing half done, and the next one goes on.
"""

import logging
import threading
from contextlib import suppress
from typing import Any

from django.db import Error, connection, transaction
from django.db.models import Subquery

from accounts.models.events import Event, Feed, now
from petstore.db.vendor import is_postgresql

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.2  # Seconds.
MOST = 1_000  # Events in one transaction, which is short: on SQLite others wait for it.

# No event is numbered before it happened: what begins with a time relies on it. A clock that is ahead must
# not carry off the feed, whose times never fall: so the event happened when it was numbered, at the latest.
ADD = """
INSERT INTO accounts_event (id, account_id, type, created_at, data, numbered_at)
SELECT %(last)s + row_number() OVER (ORDER BY d.id), d.account_id, d.type,
    CASE WHEN d.created_at > c.now THEN c.now ELSE d.created_at END, d.data, c.now
FROM {drafts} AS d, (SELECT {now} AS now) AS c
"""
# The server's clock, which all processes share.
CLOCK = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"
FIRST = "SELECT id FROM accounts_eventdraft ORDER BY id LIMIT %(most)s"
# What is added is what this very statement deletes: others may be committed meanwhile.
MOVE = f"""
WITH drafts AS (
    DELETE FROM accounts_eventdraft WHERE id = ANY(ARRAY({FIRST}))
    RETURNING id, account_id, type, created_at, data
), added AS ({ADD.format(drafts="drafts", now=f"GREATEST(%(at)s, {CLOCK})")} RETURNING 1)
SELECT count(*) FROM added
"""  # noqa: S608  Only constants.
# SQLite has one writer, who sees the same twice.
COPY = ADD.format(
    drafts="(SELECT * FROM accounts_eventdraft ORDER BY id LIMIT %(most)s)", now="max(%(at)s, %(now)s)"
)
DELETE = f"DELETE FROM accounts_eventdraft WHERE id IN ({FIRST})"  # noqa: S608
ANY = "SELECT EXISTS (SELECT 1 FROM accounts_eventdraft)"  # Asked all the time: no query is built for it.


def number_all() -> int:
    """Give the events that are committed by now their numbers; return how many. Raises DatabaseError."""
    # Reads first: on SQLite every write, even of nothing, makes others wait.
    total = 0
    while are_waiting():
        numbered = number_some()
        total += numbered
        if numbered < MOST:  # Or this would never rest. What is committed meanwhile can wait.
            break
    return total


def are_waiting() -> bool:
    """Tell whether there are drafts."""
    with connection.cursor() as cursor:
        cursor.execute(ANY)
        return bool(cursor.fetchone()[0])


def number_some() -> int:
    """Give the oldest drafts their numbers; return how many: 0 too if another process is at it."""
    with transaction.atomic():
        feed = Feed.held(if_free=True)
        if feed is None:
            return 0
        moved = move({"last": feed.last_id, "at": feed.numbered_at, "now": now(), "most": MOST})
        if moved:
            newest = Event.objects.filter(pk=feed.last_id + moved)
            Feed.objects.update(
                last_id=feed.last_id + moved, numbered_at=Subquery(newest.values("numbered_at"))
            )
        return moved


def move(values: dict[str, int]) -> int:
    """Move drafts into the feed after the `last` event; return how many."""
    with connection.cursor() as cursor:
        if is_postgresql():
            cursor.execute(MOVE, values)
            return int(cursor.fetchone()[0])
        cursor.execute(COPY, values)
        cursor.execute(DELETE, values)
        return int(cursor.rowcount)


def number_from_now_on(**kwargs: Any) -> None:
    """Go on numbering, in a thread of its own."""
    threading.Thread(target=keep_numbering, name="events", daemon=True).start()


def keep_numbering() -> None:
    pause = threading.Event()
    failed = False
    while not pause.wait(LOOK_EVERY):
        try:
            number_all()
            failed = False
        except Exception:
            with suppress(Error):
                connection.close()
            if not failed:  # One line for an outage, not five for each second of it.
                logger.warning("Events could not be numbered; it is tried again.", exc_info=True)
            failed = True
