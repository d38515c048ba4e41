"""Stock counts: content, locking and cost."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Account
from inventory import stock
from inventory.models import Category, Order, Pet, PetStatus, StockCount
from tests.conftest import COMMITTED


def add(category: Category, status: str, number: int = 1) -> list[Pet]:
    return Pet.objects.bulk_create(
        Pet(name=f"Pet {count}", category=category, status=status) for count in range(number)
    )


def test_stock_is_counted_by_category_and_status_with_open_orders(
    category: Category, account: Account
) -> None:
    other = Category.objects.exclude(pk=category.pk).earliest("pk")
    add(category, PetStatus.SOLD, 3)
    add(other, PetStatus.SOLD, 2)
    pets = add(category, PetStatus.AVAILABLE, 5)
    orders = [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="me") for pet in pets[:4]]
    orders[0].approve(by="me")
    orders[1].cancel(by="me")
    before = timezone.now()
    assert stock.refresh()
    found = stock.get_stock()
    assert found is not None
    of = {entry.category_id: (entry.available, entry.pending, entry.sold) for entry in found.categories}
    assert of == dict.fromkeys(Category.objects.values_list("pk", flat=True), (0, 0, 0)) | {
        category.pk: (2, 3, 3),
        other.pk: (0, 0, 2),
    }
    assert [entry.name for entry in found.categories] == sorted(entry.name for entry in found.categories)
    assert tuple(found.count_pets(status) for status in PetStatus.values) == (2, 3, 5)
    assert found.orders == {"to_approve": 2, "to_ship": 1, "shipped": 0, "done": 1}
    assert before <= found.counted_at <= timezone.now()


def test_page_reads_the_stored_count_only(category: Category) -> None:
    stock.refresh()
    add(category, PetStatus.AVAILABLE)
    with CaptureQueriesContext(connection) as queries:
        found = stock.get_stock()
    assert found is not None
    assert found.count_pets("available") == 0
    assert len(queries) == 2
    assert not [query for query in queries if "inventory_pet" in query["sql"]]


def test_small_uncounted_shop_is_counted_by_the_page(
    category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):  # Ids of their own: a shop whose newest id is low is small.
        Pet.objects.create(pk=number, name="Early", category=category)
    with monkeypatch.context() as patched:
        patched.setattr(stock, "MAX_PETS_COUNTED_ON_REQUEST", 0)
        assert stock.get_stock() is None
        assert not StockCount.objects.exists()
    found = stock.get_stock()
    assert found is not None
    assert found.count_pets("available") == 2


def test_count_is_made_at_most_once_a_minute(category: Category) -> None:
    now = timezone.now()
    assert stock.refresh(now)
    add(category, PetStatus.AVAILABLE)
    assert not stock.refresh(now + timedelta(seconds=59))
    assert stock.refresh(now + timedelta(seconds=61))
    found = stock.get_stock()
    assert found is not None
    assert found.count_pets("available") == 1


def test_slow_count_rests_fifty_times_its_duration(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 4.0])
    monkeypatch.setattr(stock, "perf_counter", lambda: next(times))
    now = timezone.now()
    stock.refresh(now)
    row = StockCount.objects.get()
    assert row.due_at == now + timedelta(seconds=204)
    assert row.took_ms == 4_000


def test_abandoned_count_is_taken_over_after_the_lease(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()

    def die() -> float:
        raise DatabaseError("away")

    with monkeypatch.context() as patched:
        patched.setattr(stock, "perf_counter", die)
        with pytest.raises(DatabaseError):
            stock.refresh(now)
    assert not stock.refresh(now + timedelta(minutes=9))
    assert stock.refresh(now + timedelta(minutes=10))


@COMMITTED
def test_one_of_many_workers_counts() -> None:
    start, counted = threading.Barrier(6), []

    def work() -> None:
        try:
            start.wait()
            counted.append(stock.refresh())
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counted) == [False] * 5 + [True]


@COMMITTED
def test_worker_polls_without_writing_and_survives_a_database_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stock.refresh_if_due()
    first = StockCount.objects.get()
    with CaptureQueriesContext(connection) as queries:
        stock.refresh_if_due()
    assert all(query["sql"].startswith("SELECT") for query in queries)
    assert StockCount.objects.get().due_at == first.due_at
    StockCount.objects.update(due_at=timezone.now())

    def fail(_: Any) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(stock, "refresh", fail)
    stock.refresh_if_due()
    assert "The stock count failed" in caplog.text


def test_stock_has_one_row(db: None) -> None:
    with pytest.raises(DatabaseError):
        StockCount.objects.create(pk=2, due_at=timezone.now())


def test_count_is_an_index_only_scan(db: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        stock.refresh()
    (count,) = [query["sql"] for query in queries if 'FROM "inventory_pet"' in query["sql"]]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {count}")
            assert "USING COVERING INDEX pet_of_category_and_status" in str(cursor.fetchall())
        else:
            cursor.execute("SET LOCAL enable_seqscan = off")  # An empty table would be read.
            cursor.execute("SET LOCAL enable_bitmapscan = off")
            cursor.execute("SET LOCAL enable_indexscan = off")
            cursor.execute(f"EXPLAIN {count}")
            assert "Index Only Scan using pet_of_category_and_status" in str(cursor.fetchall())
