"""Operations of petstore.event_loop: misuse fails on the event loop and in threads alike."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from accounts.models import Account
from inventory.models import Category, Pet
from petstore.event_loop.compiled_reads import Read
from petstore.event_loop.compiled_writes import atomic, insert, refresh, update
from petstore.event_loop.threads import run_in_thread
from tests.conftest import COMMITTED
from tests.support.event_loop import run_on_loop
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = COMMITTED

MISUSE_ERRORS = (TransactionManagementError, SynchronousOnlyOperation)
READ = Read(Category, lambda: Category.objects.values("id", "name"))


def add_category(name: str = "Otters") -> Category:
    return insert(Category(name=name))


UNDER_ATOMIC: list[Callable[[Category], object]] = [
    lambda category: Category.objects.create(name="Newts"),
    lambda category: Category.objects.filter(pk=category.pk).update(name="Newts"),
    lambda category: category.save(),
    lambda category: list(Category.objects.all()),
    lambda category: connection.cursor().execute("SELECT 1"),
    lambda category: READ.where(id=category.pk).fetch_one(),
]
OUTSIDE: list[Callable[[Category], object]] = [
    lambda category: insert(Pet(name="Tom", category=category), wait=False),
    lambda category: update(Category, {"pk": category.pk}, wait=False, name="Newts"),
    lambda category: refresh(category, lock=True),
]


def test_queries_of_other_apis_fail_under_atomic(run: Any) -> None:
    @atomic
    def mixed(misuse: Callable[[Category], object]) -> None:
        misuse(add_category())

    for misuse in UNDER_ATOMIC:
        assert isinstance(run(partial(mixed, misuse)), MISUSE_ERRORS)
    assert not Category.objects.filter(name__in=["Otters", "Newts"]).exists()


def test_transactional_operations_fail_outside_a_transaction(run: Any) -> None:
    category = add_category()
    for misuse in OUTSIDE:
        assert isinstance(run(partial(misuse, category)), TransactionManagementError)


@NEEDS_POSTGRESQL
def test_thread_cannot_join_a_transaction_of_the_event_loop() -> None:
    @atomic
    def mixed() -> None:
        add_category()
        run_in_thread(add_category, "Newts")

    assert isinstance(run_on_loop(mixed), TransactionManagementError)
    assert not Category.objects.filter(name__in=["Otters", "Newts"]).exists()


def test_operations_combine_under_nested_atomic(run: Any) -> None:
    @atomic
    def add(name: str) -> Category:
        return add_category(name)

    @atomic
    def both() -> None:
        category = add("Otters")
        assert update(Category, {"pk": category.pk}, name="Newts") == 1
        refresh(category, lock=True)
        insert(Pet(name="Rex", category=category), wait=False)

    assert run(both) is None
    assert Pet.objects.get(name="Rex").category.name == "Newts"


def test_none_condition_matches_null(run: Any, account: Account) -> None:
    active = {"pk": account.pk, "suspended_at": None}
    suspended: Any = {"suspended_at": timezone.now(), "suspended_reason": "Unpaid."}
    assert run(partial(update, Account, active, **suspended)) == 1
    assert run(partial(update, Account, active, **suspended)) == 0


def test_operations_and_other_queries_combine_under_djangos_atomic(db: None) -> None:
    with transaction.atomic():
        category = add_category()
        refresh(category, lock=True)
        assert Category.objects.filter(pk=category.pk).update(name="Newts") == 1
