"""What is committed is in the feed once, whatever happens to those who write and number it (D40)."""

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
from accounts.models import Account, Event, EventDraft, EventType, Feed, IdempotencyRecord
from inventory.models import Category, Pet
from petstore.event_loop.compiled_writes import atomic, insert
from tests.conftest import COMMITTED
from tests.support.concurrency import in_other_thread
from tests.support.event_loop import serve, terminate_backend
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import times

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

MANY = 40


@pytest.fixture(autouse=True)
def each_test(apart: None) -> None:
    """Leave nothing to the next one."""


def draft(number: int) -> None:
    EventDraft.build(EventType.PET_CREATED, {"number": number}).save()


def in_feed() -> list[Any]:
    """Return the data of the feed, whose ids have no gap."""
    rows = list(Event.objects.order_by("pk").values_list("pk", "data"))
    last = Feed.objects.get().last_id
    assert [pk for pk, _ in rows] == list(range(last - len(rows) + 1, last + 1))
    return [json.loads(data) for _, data in rows]


def test_each_added_pet_has_one_event_despite_concurrent_failures(
    account: Account, category: Category
) -> None:
    """One names a category that does not exist, which the commit finds; two share an Idempotency-Key."""

    def adding(name: str, category_id: int) -> Any:
        @atomic
        def add() -> None:
            insert(IdempotencyRecord(account=account, key=name))
            Pet.objects.add(name=name, category_id=category_id)

        return add

    names = ["duplicate" if number in {3, 30} else f"pet {number}" for number in range(MANY)]
    done = serve(*(adding(name, 999_999 if name == "pet 7" else category.pk) for name in names))
    sequence_all()
    assert len([one for one in done if isinstance(one, Exception)]) == 2
    assert sorted((one["pet"]["id"], one["pet"]["name"]) for one in in_feed()) == sorted(
        Pet.objects.values_list("pk", "name")
    )
    assert Pet.objects.count() == MANY - 2


WAITING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s
"""


def numberer_that_waits() -> int:
    """Return the process of PostgreSQL that is in the middle of numbering."""

    found: list[int] = []

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute(WAITING, ["%accounts_eventdraft%"])
            found.extend(process for (process,) in cursor.fetchall())

    def is_found() -> bool:
        in_other_thread(look)
        return bool(found)

    wait_until(is_found)
    return found[0]


def test_killed_sequencer_leaves_no_partial_batch() -> None:
    for number in range(3):
        draft(number)
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        EventDraft.objects.select_for_update().latest("pk")  # So numbering can't delete it yet.
        numbering = pool.submit(in_other_thread, sequence_all)
        process = numberer_that_waits()
        assert in_other_thread(sequence_all) == 0  # Nobody waits for the one that does.
        terminate_backend(process)
        with pytest.raises(Error):
            numbering.result()
    assert in_feed() == []
    assert sequence_all() == 3
    assert [one["number"] for one in in_feed()] == [0, 1, 2]


def moved_by(statement: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])


@contextmanager
def gate_closed() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(7)")
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(7)")


def test_sequencer_with_an_old_snapshot_continues_after_a_concurrent_one() -> None:
    """It waits after it has seen the drafts, and before it locks the feed."""
    for number in range(3):
        draft(number)
    first = "SELECT id FROM accounts_eventdraft"
    late = MOVE_ENTRIES.replace(
        first, "SELECT id FROM pg_advisory_xact_lock(7) AS gate, accounts_eventdraft"
    )
    with ThreadPoolExecutor(1) as pool:
        with gate_closed():
            numbering = pool.submit(in_other_thread, lambda: moved_by(late))
            numberer_that_waits()
            two = MOVE_ENTRIES.replace(f"LIMIT {BATCH_SIZE}", "LIMIT 2")
            assert in_other_thread(lambda: moved_by(two)) == 2
            ahead = Feed.objects.get().numbered_at + 60_000_000
            Feed.objects.update(numbered_at=ahead, swept_at=5)
            draft(3)
        assert numbering.result() == 1
    assert sequence_all() == 1
    assert [one["number"] for one in in_feed()] == [0, 1, 2, 3]
    feed = Feed.objects.get()
    assert (feed.numbered_at, feed.swept_at) == (ahead + 2, 5)  # Two moves, each with a time of its own.


def test_concurrent_sequencers_assign_each_event_one_id() -> None:
    each = times(300, 60)
    writers, numberers = 3, 3
    left = Semaphore(0)

    def write(first: int) -> None:
        for number in range(first, first + each):
            draft(number)
        left.release()

    def number_meanwhile() -> int:
        numbered = 0
        while not left.acquire(blocking=False):
            numbered += sequence_all()
        return numbered

    with ThreadPoolExecutor(writers + numberers) as pool:
        numbering = [pool.submit(in_other_thread, number_meanwhile) for _ in range(numberers)]
        writing = [pool.submit(in_other_thread, partial(write, one * each)) for one in range(writers)]
        for one in writing:
            one.result()
        numbered = sum(one.result() for one in numbering)
    assert numbered + sequence_all() == writers * each
    assert sorted(one["number"] for one in in_feed()) == list(range(writers * each))


def test_open_transaction_delays_only_its_own_events() -> None:
    with transaction.atomic():
        draft(1)
        in_other_thread(lambda: draft(2))
        in_other_thread(sequence_all)
        assert [one["number"] for one in in_other_thread(in_feed)] == [2]
    sequence_all()
    assert [one["number"] for one in in_feed()] == [2, 1]


def test_hanging_sequencer_blocks_no_other() -> None:
    draft(1)
    with transaction.atomic():
        Feed.lock()
        assert in_other_thread(sequence_all) == 0
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("5s",)
    assert sequence_all() == 1
