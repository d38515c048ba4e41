"""What is committed is in the feed once, whatever happens to those who write and number it (D40)."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Barrier
from typing import Any

import pytest
from django.db import Error, connection, transaction

from accounts.events.numbering import number_all
from accounts.models import Account, Event, EventDraft, EventType, Feed, IdempotencyRecord
from inventory.models import Category, Pet
from petstore.loop.linked_inserts import KEY, AroundKey, insert_with
from tests.conftest import COMMITTED
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import end_connection, serve

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

MANY = 40
# Of a numberer: it looks for drafts, limits its pauses, takes the feed, moves them, notes how far it came.
STATEMENTS = 5


@pytest.fixture(autouse=True)
def each_test(apart: None) -> None:
    """Leave nothing to the next one."""


def draft(number: int) -> None:
    EventDraft.of(EventType.PET_CREATED, {"number": number}).save()


def in_feed() -> list[Any]:
    """Return the data of the feed, whose ids have no gap."""
    rows = list(Event.objects.order_by("pk").values_list("pk", "data"))
    last = Feed.objects.get().last_id
    assert [pk for pk, _ in rows] == list(range(last - len(rows) + 1, last + 1))
    return [json.loads(data) for _, data in rows]


def test_each_pet_of_a_group_commit_has_one_event_whatever_fails_beside_it(
    account: Account, category: Category
) -> None:
    """One waits for a category that there is not, until the commit; two have one Idempotency-Key."""

    def adding(name: str, category_id: int) -> Any:
        def add() -> None:
            pet = Pet(name=name, category_id=category_id)
            event = EventDraft.of_new(EventType.PET_CREATED, {"id": KEY, "name": name})
            insert_with(pet, event, IdempotencyRecord(account=account, key=name, location=AroundKey("/")))

        return add

    names = ["twin" if number in {3, 30} else f"pet {number}" for number in range(MANY)]
    done = serve(*(adding(name, 999_999 if name == "pet 7" else category.pk) for name in names))
    number_all()
    assert len([one for one in done if isinstance(one, Exception)]) == 2
    assert sorted((one["id"], one["name"]) for one in in_feed()) == sorted(
        Pet.objects.values_list("pk", "name")
    )
    assert Pet.objects.count() == MANY - 2


def aside(function: Callable[[], Any]) -> Any:
    """Call in a thread, with a connection of its own."""

    def call() -> Any:
        try:
            return function()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(30)


@contextmanager
def killed_after(statements: int) -> Iterator[None]:
    """Have the server end this thread's connection after so many statements."""
    done = 0

    def count(execute: Any, *arguments: Any) -> Any:
        nonlocal done
        if done == statements:
            process = connection.connection.info.backend_pid
            aside(lambda: end_connection(process))
        done += 1
        return execute(*arguments)

    with connection.execute_wrapper(count):
        yield


def test_two_numberers_that_are_killed_at_any_statement_leave_nothing_half_done() -> None:
    together = Barrier(2)

    def number_until_killed(statements: int) -> None:
        connection.ensure_connection()
        together.wait(30)
        try:
            with killed_after(statements), suppress(Error):
                number_all()
        finally:
            connection.close()

    drafts = range(0)
    for statements in range(STATEMENTS):
        before, drafts = drafts, range(len(drafts) + 20)
        for number in drafts[len(before) :]:
            draft(number)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(number_until_killed, [statements] * 2))
        assert [one["number"] for one in in_feed()] in (list(before), list(drafts))
        number_all()
        assert [one["number"] for one in in_feed()] == list(drafts)


def test_transaction_that_stays_open_delays_its_own_events_alone() -> None:
    with transaction.atomic():
        draft(1)
        aside(lambda: draft(2))
        aside(number_all)
        assert [one["number"] for one in aside(in_feed)] == [2]
    number_all()
    assert [one["number"] for one in in_feed()] == [2, 1]


def test_numberer_that_hangs_makes_no_other_wait() -> None:
    draft(1)
    with transaction.atomic():
        Feed.held()
        assert aside(number_all) == 0
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("5s",)
    assert number_all() == 1
