"""Assigns committed outbox entries (OutboxEvent) their sequence numbers in the feed.

Every worker polls the outbox several times a second. One worker at a time moves the committed entries to
the feed in a single transaction. An open transaction delays only its own events.
"""

import logging
import time
from contextlib import suppress

from django.db import Error, connection, transaction

from accounts.models.events import OutboxEvent, now_in_microseconds
from accounts.quota.limits import SECOND
from petstore.db.identity import is_postgresql
from petstore.observability.metrics import BACKGROUND_FAILURES, EVENT_BACKLOG

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
RETRY_SECONDS = 1.0
BACKLOG_SECONDS = 5.0  # The interval at which the backlog is measured.
BATCH_SIZE = 1_000  # Keeps the transaction short, since it blocks other writers on SQLite.

# sequenced_at strictly increases from batch to batch, even if the clock is set back, because a cursor uses
# it to detect a sequence number that was assigned again. created_at is capped at sequenced_at, so a clock
# that is ahead breaks neither the order of the feed nor `since`.
INSERT_EVENTS = """
INSERT INTO accounts_event (id, account_id, type, created_at, data, sequenced_at)
SELECT f.last_id + row_number() OVER (ORDER BY e.id), e.account_id, e.type,
    CASE WHEN e.created_at > f.now THEN f.now ELSE e.created_at END, e.data, f.now
FROM {entries} AS e, {feed} AS f
"""
OLDEST_IDS = f"SELECT id FROM accounts_outboxevent ORDER BY id LIMIT {BATCH_SIZE}"  # noqa: S608  Only constants.

# A single statement, since a process could hang between several while it holds the lock on the feed. DELETE
# skips entries that another process has just moved. If the outbox is empty, nothing is locked. The time is
# that of the database server.
MOVE_ENTRIES = f"""
WITH oldest AS MATERIALIZED ({OLDEST_IDS}), feed AS MATERIALIZED (
    SELECT id, last_id,
        GREATEST(last_sequenced_at + 1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
            AS now
    FROM accounts_feed WHERE EXISTS (SELECT FROM oldest) FOR UPDATE SKIP LOCKED
), entries AS (
    DELETE FROM accounts_outboxevent
    WHERE EXISTS (SELECT FROM feed) AND id = ANY(ARRAY(SELECT id FROM oldest))
    RETURNING id, account_id, type, created_at, data
), inserted AS ({INSERT_EVENTS.format(entries="entries", feed="feed")} RETURNING 1), moved (total) AS (
    SELECT count(*) FROM inserted
), updated AS (
    UPDATE accounts_feed SET last_id = feed.last_id + moved.total, last_sequenced_at = feed.now
    FROM feed, moved WHERE accounts_feed.id = feed.id AND moved.total > 0
)
SELECT total FROM moved
"""  # noqa: S608  Only constants.

# SQLite has a single writer, so these statements see the same rows.
COPY_ENTRIES = INSERT_EVENTS.format(
    entries=f"(SELECT * FROM accounts_outboxevent WHERE id IN ({OLDEST_IDS}))",  # noqa: S608  Only constants.
    feed="(SELECT last_id, max(last_sequenced_at + 1, %s) AS now FROM accounts_feed)",
)
DELETE_ENTRIES = f"DELETE FROM accounts_outboxevent WHERE id IN ({OLDEST_IDS})"  # noqa: S608  Only constants.
UPDATE_FEED = """
UPDATE accounts_feed SET (last_id, last_sequenced_at) = (
    SELECT id, sequenced_at FROM accounts_event ORDER BY id DESC LIMIT 1)
"""


def sequence_all() -> int:
    """Sequence the committed entries in batches; return their count. Stops if another process does so."""
    total = 0
    while True:
        count = sequence_batch()
        total += count
        if count < BATCH_SIZE:
            return total


def sequence_batch() -> int:
    """Sequence the oldest entries; return their count, or 0 if another process is sequencing."""
    if not is_postgresql():
        # Read first: on SQLite, even statements without matching rows block other writers.
        return sequence_on_sqlite() if OutboxEvent.objects.exists() else 0
    with connection.cursor() as cursor:
        cursor.execute(MOVE_ENTRIES)
        return int(cursor.fetchone()[0])


@transaction.atomic
def sequence_on_sqlite() -> int:
    with connection.cursor() as cursor:
        cursor.execute(COPY_ENTRIES, [now_in_microseconds()])
        cursor.execute(DELETE_ENTRIES)
        count = int(cursor.rowcount)
        cursor.execute(UPDATE_FEED)
        return count


def measure_backlog() -> float:
    """Return the age in seconds of the oldest outbox entry, or 0 if there is none."""
    created_at = OutboxEvent.objects.order_by("id").values_list("created_at", flat=True).first()
    return 0 if created_at is None else max(0, now_in_microseconds() - created_at) / SECOND


def run_sequencing() -> None:
    failed = False
    next_measurement = 0.0
    while True:
        time.sleep(RETRY_SECONDS if failed else POLL_SECONDS)
        try:
            if time.monotonic() >= next_measurement:
                EVENT_BACKLOG.set(measure_backlog())
                next_measurement = time.monotonic() + BACKLOG_SECONDS
            sequence_all()
            failed = False
        except Exception:
            BACKGROUND_FAILURES.labels("events").inc()
            with suppress(Error):
                connection.close()
            if not failed:  # Log each outage once.
                logger.warning("Sequencing events failed and will be retried.", exc_info=True)
            failed = True
