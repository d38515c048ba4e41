"""Stock counts: content, locking and cost."""

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Account
from accounts.usage.write_behind import run_safely
from inventory import stock
from inventory.models import Category, Order, Pet, PetStatus, StockCount
from tests.conftest import COMMITTED
from tests.support.concurrency import run_concurrently


def add_pets(category: Category, status: str, count: int = 1) -> list[Pet]:
    return Pet.objects.bulk_create(
        Pet(name=f"Pet {number}", category=category, status=status) for number in range(count)
    )


def get_available() -> int:
    latest = stock.get_stock()
    assert latest is not None
    return latest.count_pets("available")


def test_stock_is_counted_by_category_and_status_and_orders(category: Category, account: Account) -> None:
    other = Category.objects.exclude(pk=category.pk).earliest("pk")
    add_pets(category, PetStatus.SOLD, 3)
    add_pets(other, PetStatus.SOLD, 2)
    pets = add_pets(category, PetStatus.AVAILABLE, 5)
    orders = [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="me") for pet in pets]
    for order in orders[:3]:
        order.approve(by="me")
    orders[1].ship(by="me", ship_date=timezone.now() + timedelta(days=2))
    orders[2].ship(by="me")
    orders[3].cancel(by="me")
    before = timezone.now()
    assert stock.refresh()
    latest = stock.get_stock()
    assert latest is not None
    expected = dict.fromkeys(Category.objects.values_list("pk", flat=True), (0, 0, 0))
    expected |= {category.pk: (1, 4, 3), other.pk: (0, 0, 2)}
    assert {row.category_id: tuple(row.pets.values()) for row in latest.categories} == expected
    assert [row.name for row in latest.categories] == sorted(row.name for row in latest.categories)
    assert tuple(latest.count_pets(status) for status in PetStatus.values) == (1, 4, 5)
    open_orders = dict.fromkeys(["to_approve", "to_ship", "scheduled", "shipped"], 1)
    assert latest.orders == open_orders | {"delivered": 0, "cancelled": 1}
    assert before <= latest.counted_at <= timezone.now()


def test_page_reads_the_stored_count_only(category: Category) -> None:
    stock.refresh()
    add_pets(category, PetStatus.AVAILABLE)
    with CaptureQueriesContext(connection) as queries:
        assert get_available() == 0
    assert len(queries) == 2
    assert not [query for query in queries if "inventory_pet" in query["sql"]]


def test_small_uncounted_shop_is_counted_by_the_page(category: Category, monkeypatch: Any) -> None:
    for number in (1, 2):  # A shop is small if its highest id is low.
        Pet.objects.create(pk=number, name="Early", category=category)
    with monkeypatch.context() as patched:
        patched.setattr(stock, "MAX_PETS_COUNTED_ON_REQUEST", 0)
        assert stock.get_stock() is None
        assert not StockCount.objects.exists()
    assert get_available() == 2


def test_count_is_made_at_most_once_a_minute_or_fifty_times_its_duration(
    category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    assert stock.refresh(now)
    add_pets(category, PetStatus.AVAILABLE)
    assert not stock.refresh(now + timedelta(seconds=59))
    assert stock.refresh(now + timedelta(seconds=61))
    assert get_available() == 1
    monkeypatch.setattr(stock, "perf_counter", iter([0.0, 4.0]).__next__)
    now += timedelta(hours=1)
    stock.refresh(now)
    row = StockCount.objects.get()
    assert (row.due_at, row.took_ms) == (now + timedelta(seconds=204), 4_000)


fail = Mock(side_effect=DatabaseError("The server is unavailable."))


def test_abandoned_count_is_taken_over_after_the_lease(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    with monkeypatch.context() as patched:
        patched.setattr(stock, "perf_counter", fail)
        with pytest.raises(DatabaseError):
            stock.refresh(now)
    assert not stock.refresh(now + timedelta(minutes=9))
    assert stock.refresh(now + timedelta(minutes=10))


@COMMITTED
def test_only_one_worker_counts_in_one_row() -> None:
    assert sorted(run_concurrently(*[stock.refresh] * 6)) == [False] * 5 + [True]
    with pytest.raises(DatabaseError):
        StockCount.objects.create(pk=2, due_at=timezone.now())


@COMMITTED
def test_worker_polls_without_writing_and_survives_an_outage(monkeypatch: Any, caplog: Any) -> None:
    stock.refresh_if_due()
    before = StockCount.objects.get()
    with CaptureQueriesContext(connection) as queries:
        stock.refresh_if_due()
    assert all(query["sql"].startswith("SELECT") for query in queries)
    assert StockCount.objects.get().due_at == before.due_at
    StockCount.objects.update(due_at=timezone.now())
    monkeypatch.setattr(stock, "refresh", fail)
    run_safely("stock", stock.refresh_if_due)
    assert "The background task 'stock' failed" in caplog.text


def test_count_is_an_index_only_scan(db: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        stock.refresh()
    (sql,) = [query["sql"] for query in queries if 'FROM "inventory_pet"' in query["sql"]]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            assert "USING COVERING INDEX pet_of_category_and_status" in str(cursor.fetchall())
        else:  # PostgreSQL would prefer a sequential scan of an empty table.
            for scan in ("seqscan", "bitmapscan", "indexscan"):
                cursor.execute(f"SET LOCAL enable_{scan} = off")
            cursor.execute(f"EXPLAIN {sql}")
            assert "Index Only Scan using pet_of_category_and_status" in str(cursor.fetchall())
