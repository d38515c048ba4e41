"""Assigns committed outbox entries (EventDraft) their sequence numbers in the feed.

Every worker polls several times a second; one at a time moves the committed entries from the outbox to the
feed, in one transaction. An open transaction delays only its own events.
"""

import logging
import threading
from contextlib import suppress

from django.db import Error, connection, transaction

from accounts.models.events import EventDraft, now
from petstore.db.identity import is_postgresql

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
RETRY_SECONDS = 1.0
BATCH_SIZE = 1_000  # Keeps the transaction short, since it blocks other writers on SQLite.

# numbered_at strictly increases from batch to batch, even if the clock is set back: a cursor compares it to
# detect a sequence number that was assigned again. created_at is capped at numbered_at, so that a clock
# that is ahead breaks neither the order of the feed nor `since`.
ADD = """
INSERT INTO accounts_event (id, account_id, type, created_at, data, numbered_at)
SELECT f.last_id + row_number() OVER (ORDER BY d.id), d.account_id, d.type,
    CASE WHEN d.created_at > f.now THEN f.now ELSE d.created_at END, d.data, f.now
FROM {drafts} AS d, {feed} AS f
"""
FIRST = f"SELECT id FROM accounts_eventdraft ORDER BY id LIMIT {BATCH_SIZE}"  # noqa: S608  Only constants.

# One statement, so that no process can hang between its parts while it holds the lock on the feed. Entries
# that another process has just moved are not found by DELETE. Without entries, nothing is locked. The clock
# is the database server's.
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

# SQLite has a single writer, so three statements see the same rows.
COPY = ADD.format(
    drafts=f"(SELECT * FROM accounts_eventdraft WHERE id IN ({FIRST}))",  # noqa: S608  Only constants.
    feed="(SELECT last_id, max(numbered_at + 1, %s) AS now FROM accounts_feed)",
)
DELETE = f"DELETE FROM accounts_eventdraft WHERE id IN ({FIRST})"  # noqa: S608  Only constants.
UPDATE_FEED = """
UPDATE accounts_feed SET (last_id, numbered_at) = (
    SELECT id, numbered_at FROM accounts_event ORDER BY id DESC LIMIT 1)
"""


def sequence_all() -> int:
    """Sequence all entries committed before the call; return their number. Raises DatabaseError."""
    total = 0
    while True:
        sequenced = sequence_batch()
        total += sequenced
        if sequenced < BATCH_SIZE:
            return total


def sequence_batch() -> int:
    """Sequence the oldest entries; return their number, 0 also while another process does so."""
    if not is_postgresql():
        # Read first: on SQLite, even an empty write blocks other writers.
        return sequence_on_sqlite() if EventDraft.objects.exists() else 0
    with connection.cursor() as cursor:
        cursor.execute(MOVE)
        return int(cursor.fetchone()[0])


@transaction.atomic
def sequence_on_sqlite() -> int:
    with connection.cursor() as cursor:
        cursor.execute(COPY, [now()])
        cursor.execute(DELETE)
        moved = int(cursor.rowcount)
        cursor.execute(UPDATE_FEED)
        return moved


def start_sequencing() -> None:
    threading.Thread(target=run_sequencing, name="events", daemon=True).start()


def run_sequencing() -> None:
    pause = threading.Event()
    failed = False
    while not pause.wait(RETRY_SECONDS if failed else POLL_SECONDS):
        try:
            sequence_all()
            failed = False
        except Exception:
            with suppress(Error):
                connection.close()
            if not failed:  # Log an outage once.
                logger.warning("Events could not be sequenced; it is retried.", exc_info=True)
            failed = True
