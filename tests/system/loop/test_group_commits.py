"""Single inserts on the event loop are committed together, and each is as if it had been alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from accounts.models import Account, IdempotencyRecord
from inventory.models import Category, Pet
from petstore.loop.compiled_writes import atomic, insert
from petstore.loop.linked_inserts import AroundKey, insert_with, try_insert_with
from petstore.loop.postgresql import PostgresqlConnection
from tests.conftest import COMMITTED
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import serve

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

MANY = 40


@pytest.fixture
def category(db: None) -> Category:
    return Category.objects.create(name="Parrots")


def adding(name: str, category_id: int) -> Any:
    """Return what adds a pet with a name of its own, and returns its key and name."""

    def add() -> tuple[int, str]:
        pet = insert(Pet(name=name, category_id=category_id))
        return pet.pk, name

    return add


def adding_with_record(insert_both: Any, account: Account, category: Category, key: str) -> Any:
    """Return what adds a pet and a record that names it, and returns what the verb does."""

    def add() -> Any:
        record = IdempotencyRecord(account=account, key=key, fingerprint="", location=AroundKey("/pets/"))
        return insert_both(Pet(name=key, category=category), record)

    return add


def located() -> dict[str, str]:
    """Return where the record says that the pet of the same name is."""
    return dict(IdempotencyRecord.objects.values_list("key", "location"))


def stored() -> set[tuple[int, str]]:
    return set(Pet.objects.values_list("pk", "name"))


def transactions() -> int:
    """Return how many transactions have made the pets that there are."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM inventory_pet")
        found: int = cursor.fetchone()[0]
        return found


def test_inserts_that_come_at_once_are_few_transactions_and_each_gets_its_own_key(
    category: Category,
) -> None:
    added = serve(*(adding(f"pet {n}", category.pk) for n in range(MANY)))
    assert set(added) == stored()
    assert len(added) == MANY
    assert transactions() < MANY / 4


def test_one_that_the_commit_refuses_takes_no_other_along(category: Category) -> None:
    """The category's constraint is checked by the commit, which cannot say whose it is."""
    added = serve(*(adding(f"pet {n}", 999_999 if n == 7 else category.pk) for n in range(MANY)))
    (refused,) = [one for one in added if isinstance(one, Exception)]
    assert added[7] is refused
    assert isinstance(refused, IntegrityError)
    assert {one for one in added if one is not refused} == stored()
    assert len(stored()) == MANY - 1


def test_one_that_the_statement_refuses_takes_no_other_along(category: Category) -> None:
    added = serve(*(adding("" if n in (0, 7) else f"pet {n}", category.pk) for n in range(MANY)))
    refused = {n for n, one in enumerate(added) if isinstance(one, IntegrityError)}
    assert refused == {0, 7}
    assert {one for n, one in enumerate(added) if n not in refused} == stored()


@contextmanager
def locked(category: Category) -> Iterator[None]:
    """Keep others from a category's row until the end."""
    has_it, leave = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic():
            Category.objects.select_for_update().get(pk=category.pk)
            has_it.set()
            leave.wait(30)
        connection.close()

    holder = threading.Thread(target=lock)
    holder.start()
    try:
        assert has_it.wait(30)
        yield
    finally:
        leave.set()
        holder.join()


def test_one_that_waits_for_a_lock_holds_nobody_else_up(category: Category) -> None:
    free = Category.objects.create(name="Owls")
    order: list[str] = []

    def note(add: Any) -> Any:
        def noting() -> Any:
            added = add()
            order.append(added[1])
            if len(order) == MANY - 1:  # All that need not wait: now the other may go on.
                hold.__exit__(None, None, None)
            return added

        return noting

    hold = locked(category)
    hold.__enter__()
    adds = [adding(f"pet {n}", category.pk if n == 7 else free.pk) for n in range(MANY)]
    added = serve(*map(note, adds))
    assert order[-1] == "pet 7"
    assert set(added) == stored()


def test_what_is_lost_before_its_commit_is_heard_of_is_told_so_and_never_written_twice(
    category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(adding("first", category.pk))
    deliver = PostgresqlConnection._deliver
    lost: list[PostgresqlConnection] = []

    def lose_the_third(self: PostgresqlConnection) -> None:
        if not lost and self._all_or_none and len(self._results) > 3:
            lost.append(self)
            raise OSError("The answer never arrives.")
        deliver(self)

    monkeypatch.setattr(PostgresqlConnection, "_deliver", lose_the_third)
    added = serve(*(adding(f"pet {n}", category.pk) for n in range(MANY)))
    assert lost
    failed = [one for one in added if isinstance(one, Exception)]
    assert failed
    assert all(isinstance(one, OperationalError) for one in failed)
    names = [name for _, name in stored()]
    assert len(names) == len(set(names))
    assert {one for one in added if not isinstance(one, Exception)} <= stored()


def test_part_of_a_transaction_is_committed_with_it_alone(category: Category) -> None:
    @atomic
    def two_and_fail() -> None:
        insert(Pet(name="undone", category_id=category.pk))
        insert(Pet(name="undone too", category_id=category.pk))
        raise LookupError

    failed, kept = serve(two_and_fail, adding("kept", category.pk))
    assert isinstance(failed, LookupError)
    assert {kept} == stored()


@pytest.mark.parametrize("insert_both", [insert_with, try_insert_with])
def test_a_row_and_one_that_names_it_share_a_transaction_with_others(
    account: Account, category: Category, insert_both: Any
) -> None:
    serve(*(adding_with_record(insert_both, account, category, f"pet {n}") for n in range(MANY)))
    assert located() == {name: f"/pets/{pk}" for pk, name in stored()}
    assert len(located()) == MANY
    assert transactions() < MANY / 4


def test_a_pair_that_contradicts_another_takes_no_other_along(account: Account, category: Category) -> None:
    keys = ["twin" if n in (0, 7) else f"pet {n}" for n in range(MANY)]
    added = serve(*(adding_with_record(insert_with, account, category, key) for key in keys))
    (refused,) = [one for one in added if one is not None]
    assert isinstance(refused, IntegrityError)
    assert located() == {name: f"/pets/{pk}" for pk, name in stored()}
    assert set(located()) == set(keys)
    assert len(stored()) == MANY - 1


def test_a_pair_that_is_tried_waits_for_nobody(account: Account, category: Category) -> None:
    with locked(category):
        assert serve(adding_with_record(try_insert_with, account, category, "pet")) == [False]
    assert not stored()
    assert not located()
