"""Gives committed events their places in the feed.

Each process that serves looks several times a second, and one at a time moves what it sees from the drafts
to the feed. A transaction that is still open delays its own events and no others, however long it takes.
The move is one transaction, so a process that is killed leaves nothing half done, and the next one goes on.
"""

import logging
import threading
from contextlib import suppress

from django.db import Error, connection, transaction

from accounts.models.events import EventDraft, now
from petstore.db.identity import is_postgresql

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.2  # Seconds.
TRY_EVERY = 1.0  # Seconds, after a failure: a server that takes no writes may stay so for long.
MOST = 1_000  # Events in one transaction, which is short: on SQLite others wait for it.

# No event is numbered before it happened: what begins with a time relies on it. A clock that is ahead must
# not carry off the feed, whose times never fall: so the event happened when it was numbered, at the latest.
# Nor do two moves have one time, though the clock was set back: a cursor tells by it if its number was
# given again since.
ADD = """
INSERT INTO accounts_event (id, account_id, type, created_at, data, numbered_at)
SELECT f.last_id + row_number() OVER (ORDER BY d.id), d.account_id, d.type,
    CASE WHEN d.created_at > f.now THEN f.now ELSE d.created_at END, d.data, f.now
FROM {drafts} AS d, {feed} AS f
"""
FIRST = f"SELECT id FROM accounts_eventdraft ORDER BY id LIMIT {MOST}"  # noqa: S608  Only constants.

# One statement, so that no process can hang between its parts and hold the feed meanwhile. Where another
# one has just moved the same drafts, they are not there to be deleted, and the feed that is locked is as
# that one left it. The clock is the server's, which all processes share. Without drafts nothing is locked.
MOVE = f"""
WITH first AS MATERIALIZED ({FIRST}), feed AS MATERIALIZED (
    SELECT id, last_id,
        GREATEST(numbered_at + 1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint) AS now
    FROM accounts_feed WHERE EXISTS (SELECT FROM first) FOR UPDATE SKIP LOCKED
), drafts AS (
    DELETE FROM accounts_eventdraft
    WHERE EXISTS (SELECT FROM feed) AND id = ANY(ARRAY(SELECT id FROM first))
    RETURNING id, account_id, type, created_at, data
), added AS ({ADD.format(drafts="drafts", feed="feed")} RETURNING 1), moved (number) AS (
    SELECT count(*) FROM added
), noted AS (
    UPDATE accounts_feed SET last_id = feed.last_id + moved.number, numbered_at = feed.now
    FROM feed, moved WHERE accounts_feed.id = feed.id AND moved.number > 0
)
SELECT number FROM moved
"""  # noqa: S608  Only constants.

# SQLite has one writer, who sees the same in each of three statements.
COPY = ADD.format(
    drafts=f"(SELECT * FROM accounts_eventdraft WHERE id IN ({FIRST}))",  # noqa: S608  Only constants.
    feed="(SELECT last_id, max(numbered_at + 1, %s) AS now FROM accounts_feed)",
)
DELETE = f"DELETE FROM accounts_eventdraft WHERE id IN ({FIRST})"  # noqa: S608  Only constants.
NOTE = """
UPDATE accounts_feed SET (last_id, numbered_at) = (
    SELECT id, numbered_at FROM accounts_event ORDER BY id DESC LIMIT 1)
"""


def number_all() -> int:
    """Give the events that are committed by now their numbers; return how many. Raises DatabaseError."""
    total = 0
    while True:
        numbered = number_some()
        total += numbered
        if numbered < MOST:  # Or this would never rest. What is committed meanwhile can wait.
            return total


def number_some() -> int:
    """Give the oldest drafts their numbers; return how many: 0 too if another process is at it."""
    if not is_postgresql():
        # Reads first: on SQLite every write, even of nothing, makes others wait.
        return number_in_turn() if EventDraft.objects.exists() else 0
    with connection.cursor() as cursor:
        cursor.execute(MOVE)
        return int(cursor.fetchone()[0])


@transaction.atomic
def number_in_turn() -> int:
    """Do so on SQLite, where a transaction keeps other writers out from its beginning."""
    with connection.cursor() as cursor:
        cursor.execute(COPY, [now()])
        cursor.execute(DELETE)
        moved = int(cursor.rowcount)
        cursor.execute(NOTE)
        return moved


def number_from_now_on() -> None:
    """Go on numbering, in a thread of its own."""
    threading.Thread(target=keep_numbering, name="events", daemon=True).start()


def keep_numbering() -> None:
    pause = threading.Event()
    failed = False
    while not pause.wait(TRY_EVERY if failed else LOOK_EVERY):
        try:
            number_all()
            failed = False
        except Exception:
            with suppress(Error):
                connection.close()
            if not failed:  # One line for an outage, not five for each second of it.
                logger.warning("Events could not be numbered; it is tried again.", exc_info=True)
            failed = True
