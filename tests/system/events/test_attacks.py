"""Each committed event is in the feed once, despite failures of writers and sequencers (D40)."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Semaphore
from typing import Any

import pytest
from django.db import Error, connection, transaction

from accounts.events.sequencing import BATCH_SIZE, MOVE_ENTRIES, sequence_all
from accounts.models import Account, Event, EventType, Feed, IdempotencyRecord, OutboxEvent
from inventory.models import Category, Pet
from tests.conftest import COMMITTED
from tests.support.concurrency import in_other_thread
from tests.support.event_loop import serve, terminate_backend
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import times

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

PETS = 40


@pytest.fixture(autouse=True)
def each_test(isolated: None) -> None:
    """Isolate the tests from each other."""


def add_outbox_event(number: int) -> None:
    OutboxEvent.build(EventType.PET_CREATED, {"number": number}).save()


def read_feed() -> list[Any]:
    """Return the data of the feed, whose IDs must have no gaps."""
    rows = list(Event.objects.order_by("pk").values_list("pk", "data"))
    last = Feed.objects.get().last_id
    assert [pk for pk, _ in rows] == list(range(last - len(rows) + 1, last + 1))
    return [json.loads(data) for _, data in rows]


def test_each_added_pet_has_one_event_despite_concurrent_failures(
    account: Account, category: Category
) -> None:
    """One pet has an unknown category, which fails at COMMIT; two share an idempotency key."""

    def make_add(name: str, category_id: int) -> Any:
        @transaction.atomic
        def add() -> None:
            IdempotencyRecord.objects.create(account=account, idempotency_key=name)
            Pet.objects.create_with_event(name=name, category_id=category_id)

        return add

    names = ["duplicate" if number in {3, 30} else f"pet {number}" for number in range(PETS)]
    results = serve(*(make_add(name, 999_999 if name == "pet 7" else category.pk) for name in names))
    sequence_all()
    assert len([result for result in results if isinstance(result, Exception)]) == 2
    assert sorted((event["pet"]["id"], event["pet"]["name"]) for event in read_feed()) == sorted(
        Pet.objects.values_list("pk", "name")
    )
    assert Pet.objects.count() == PETS - 2


FIND_BLOCKED = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s
"""


def wait_for_blocked_sequencer() -> int:
    """Wait for a sequencer that is blocked by a lock; return its PostgreSQL process ID."""
    process_ids: list[int] = []

    def poll() -> None:
        with connection.cursor() as cursor:
            cursor.execute(FIND_BLOCKED, ["%accounts_outboxevent%"])
            process_ids.extend(process_id for (process_id,) in cursor.fetchall())

    def is_blocked() -> bool:
        in_other_thread(poll)
        return bool(process_ids)

    wait_until(is_blocked)
    return process_ids[0]


def test_killed_sequencer_leaves_no_partial_batch() -> None:
    for number in range(3):
        add_outbox_event(number)
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        OutboxEvent.objects.select_for_update().latest("pk")  # Blocks the deletion by the sequencer.
        sequencing = pool.submit(in_other_thread, sequence_all)
        process = wait_for_blocked_sequencer()
        assert in_other_thread(sequence_all) == 0  # Other sequencers do not wait.
        terminate_backend(process)
        with pytest.raises(Error):
            sequencing.result()
    assert read_feed() == []
    assert sequence_all() == 3
    assert [event["number"] for event in read_feed()] == [0, 1, 2]


def execute_and_count(statement: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])


@contextmanager
def gate_locked() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(7)")
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(7)")


def test_sequencer_with_an_old_snapshot_continues_after_a_concurrent_one() -> None:
    """It is blocked after its snapshot is taken, before it locks the feed."""
    for number in range(3):
        add_outbox_event(number)
    first = "SELECT id FROM accounts_outboxevent"
    delayed = MOVE_ENTRIES.replace(
        first, "SELECT id FROM pg_advisory_xact_lock(7) AS gate, accounts_outboxevent"
    )
    with ThreadPoolExecutor(1) as pool:
        with gate_locked():
            sequencing = pool.submit(in_other_thread, lambda: execute_and_count(delayed))
            wait_for_blocked_sequencer()
            two = MOVE_ENTRIES.replace(f"LIMIT {BATCH_SIZE}", "LIMIT 2")
            assert in_other_thread(lambda: execute_and_count(two)) == 2
            ahead = Feed.objects.get().last_sequenced_at + 60_000_000
            Feed.objects.update(last_sequenced_at=ahead, warnings_checked_at=5)
            add_outbox_event(3)
        assert sequencing.result() == 1
    assert sequence_all() == 1
    assert [event["number"] for event in read_feed()] == [0, 1, 2, 3]
    feed = Feed.objects.get()
    assert (feed.last_sequenced_at, feed.warnings_checked_at) == (
        ahead + 2,
        5,
    )  # Each batch has its own timestamp.


def test_concurrent_sequencers_assign_each_event_one_id() -> None:
    events_per_writer = times(300, 60)
    writers, sequencers = 3, 3
    finished_writers = Semaphore(0)

    def write(first: int) -> None:
        for number in range(first, first + events_per_writer):
            add_outbox_event(number)
        finished_writers.release()

    def sequence_until_finished() -> int:
        count = 0
        while not finished_writers.acquire(blocking=False):
            count += sequence_all()
        return count

    with ThreadPoolExecutor(writers + sequencers) as pool:
        sequencing = [pool.submit(in_other_thread, sequence_until_finished) for _ in range(sequencers)]
        writing = [
            pool.submit(in_other_thread, partial(write, index * events_per_writer))
            for index in range(writers)
        ]
        for future in writing:
            future.result()
        sequenced = sum(future.result() for future in sequencing)
    assert sequenced + sequence_all() == writers * events_per_writer
    assert sorted(event["number"] for event in read_feed()) == list(range(writers * events_per_writer))


def test_open_transaction_delays_only_its_own_events() -> None:
    with transaction.atomic():
        add_outbox_event(1)
        in_other_thread(lambda: add_outbox_event(2))
        in_other_thread(sequence_all)
        assert [event["number"] for event in in_other_thread(read_feed)] == [2]
    sequence_all()
    assert [event["number"] for event in read_feed()] == [2, 1]


def test_hanging_sequencer_blocks_no_other() -> None:
    add_outbox_event(1)
    with transaction.atomic():
        Feed.lock()
        assert in_other_thread(sequence_all) == 0
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("5s",)
    assert sequence_all() == 1
