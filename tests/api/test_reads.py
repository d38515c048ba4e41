"""Reads whose SQL is compiled once return what the queryset returns, regardless of earlier reads."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db.models import QuerySet

from accounts.models import Account
from inventory.models import Category, Order, OrderStatus, Pet, PetStatus
from petstore.db.event_loop import compiled_reads
from petstore.db.event_loop.compiled_reads import Read


@pytest.fixture
def pets(category: Category) -> list[Pet]:
    return Pet.objects.bulk_create(
        Pet(name=f"Pet {number}", category=category, status=PetStatus.values[number % 3])
        for number in range(12)
    )


@pytest.fixture
def read() -> Read:
    return Read(Pet, Pet.objects.as_json)


def queryset(**filters: Any) -> QuerySet[Pet, Any]:
    return Pet.objects.as_json().filter(**filters).order_by("id")


def test_rows_match_the_queryset_regardless_of_earlier_reads(pets: list[Pet], read: Read) -> None:
    for filters in (
        {}, {"id": pets[3].pk}, {"id__gt": pets[3].pk}, {"status": "sold"}, {"status": "available"},
        {"status": "sold", "id__gt": pets[5].pk}, {"status": "sold", "id__gt": pets[1].pk},
        {"category_id": pets[0].category_id}, {"category_id": 999_999},
    ):  # fmt: skip
        for count in (1, 3, 100):
            assert read.where(**filters).fetch(count) == list(queryset(**filters)[:count])


def test_each_shape_of_read_is_compiled_once(pets: list[Pet], read: Read, monkeypatch: Any) -> None:
    compiled = []
    compile_read = compiled_reads.compile_read

    def record(*args: Any) -> compiled_reads.CompiledRead:
        compiled.append(args[2:])
        return compile_read(*args)

    monkeypatch.setattr(compiled_reads, "compile_read", record)
    for pet in pets:
        assert read.where(status=pet.status).where(id__gt=pet.pk - 1).fetch(5)
        assert read.where(id=pet.pk).fetch_one() == pet.as_json()
    assert compiled == [
        (("status", "id__gt"), {"status": "available"}),
        (("id",), {}),
        (("status", "id__gt"), {"status": "pending"}),
        (("status", "id__gt"), {"status": "sold"}),
    ]


def test_where_filters_a_copy(pets: list[Pet], read: Read) -> None:
    narrow = read.where(id=pets[0].pk)
    assert len(read.fetch(100)) == len(pets)
    assert len(narrow.fetch(100)) == 1
    assert narrow.where(id=pets[1].pk).fetch(100) == [pets[1].as_json()]
    assert narrow.where(id=0).fetch(5) == []
    assert narrow.where(id=0).fetch_one() is None


def test_types_unsupported_by_a_database_are_converted(account: Account, pets: list[Pet]) -> None:
    ships = datetime(2026, 11, 21, 12, 30, 0, 5, tzinfo=UTC)
    order = Order.objects.create(
        account=account, pet=pets[0], status=OrderStatus.DELIVERED, ship_date=ships
    )
    row = Read(Order, Order.objects.as_json).where(account_id=account.pk).fetch_one()
    assert row is not None
    assert (row, row["shipDate"]) == (order.as_json(), ships)
    assert row["complete"] is True
