"""The verbs of petstore.event_loop: what can't work on the event loop fails elsewhere as well."""

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

REFUSED = (TransactionManagementError, SynchronousOnlyOperation)
READ = Read(Category, lambda: Category.objects.values("id", "name"))


def a_category(name: str = "Otters") -> Category:
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


def test_no_other_query_is_made_under_atomic(run: Any) -> None:
    @atomic
    def mixed(misuse: Callable[[Category], object]) -> None:
        misuse(a_category())

    for misuse in UNDER_ATOMIC:
        assert isinstance(run(partial(mixed, misuse)), REFUSED)
    assert not Category.objects.filter(name__in=["Otters", "Newts"]).exists()


def test_what_belongs_to_a_transaction_is_refused_outside_one(run: Any) -> None:
    category = a_category()
    for misuse in OUTSIDE:
        assert isinstance(run(partial(misuse, category)), TransactionManagementError)


@NEEDS_POSTGRESQL
def test_a_thread_takes_no_part_in_a_transaction_of_the_loop() -> None:
    @atomic
    def mixed() -> None:
        a_category()
        run_in_thread(a_category, "Newts")

    assert isinstance(run_on_loop(mixed), TransactionManagementError)
    assert not Category.objects.filter(name__in=["Otters", "Newts"]).exists()


def test_the_verbs_work_together_under_atomic(run: Any) -> None:
    @atomic
    def add(name: str) -> Category:
        return a_category(name)

    @atomic
    def both() -> None:
        category = add("Otters")
        assert update(Category, {"pk": category.pk}, name="Newts") == 1
        refresh(category, lock=True)
        insert(Pet(name="Rex", category=category), wait=False)

    assert run(both) is None
    assert Pet.objects.get(name="Rex").category.name == "Newts"


def test_condition_of_none_finds_rows_without_a_value(run: Any, account: Account) -> None:
    active = {"pk": account.pk, "suspended_at": None}
    suspended: Any = {"suspended_at": timezone.now(), "suspended_reason": "Unpaid."}
    assert run(partial(update, Account, active, **suspended)) == 1
    assert run(partial(update, Account, active, **suspended)) == 0


def test_who_wants_other_queries_beside_them_has_djangos_atomic(db: None) -> None:
    with transaction.atomic():
        category = a_category()
        refresh(category, lock=True)
        assert Category.objects.filter(pk=category.pk).update(name="Newts") == 1
