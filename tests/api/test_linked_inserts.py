"""A row and others that name its key are written as one."""

from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Account, IdempotencyRecord
from inventory.models import Category, Order, Pet, PetEvent
from petstore.loop.compiled_writes import atomic
from petstore.loop.linked_inserts import KEY, AroundKey, insert_with, try_insert_with
from tests.conftest import COMMITTED
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import on_the_loop

pytestmark = COMMITTED


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet(name='Zoë \\ "', category=category)


def record(account: Account, pet: Pet, **values: Any) -> IdempotencyRecord:
    """Return a record whose texts are around the pet's key."""
    around = {"location": AroundKey("/pets/"), "body": AroundKey.json(pet.as_json() | {"id": KEY})}
    return IdempotencyRecord(account=account, **{"key": "a", "fingerprint": "b", **around, **values})


def test_a_text_or_bytes_may_have_the_key_in_the_middle(run: Any, account: Account, pet: Pet) -> None:
    assert run(lambda: insert_with(pet, record(account, pet, status=201))) is None
    assert Pet.objects.get().pk == pet.pk
    kept = IdempotencyRecord.objects.get()
    assert kept.location == f"/pets/{pet.pk}"
    body = f'{{"id":{pet.pk},"name":"Zoë \\\\ \\"","categoryId":{pet.category_id},"status":"available"}}'
    assert bytes(kept.body).decode() == body
    assert (kept.key, kept.fingerprint, kept.status) == ("a", "b", 201)
    assert kept.created_at <= timezone.now()


def test_there_may_be_any_number_of_others_with_the_key_in_any_text(
    run: Any, account: Account, pet: Pet
) -> None:
    others = [record(account, pet, key=AroundKey("pet ", f", {n}"), body=b"\x00\xff") for n in range(3)]
    run(lambda: insert_with(pet, *others))
    kept = IdempotencyRecord.objects.order_by("key")
    assert [one.key for one in kept] == [f"pet {pet.pk}, {n}" for n in range(3)]
    assert {bytes(one.body) for one in kept} == {b"\x00\xff"}


def test_fields_without_a_value_stay_empty_whichever_row_came_first(run: Any, account: Account) -> None:
    category = Category.objects.create(name="Newts")
    known = Pet.objects.create(name="Tom", category=category)
    order = Order.objects.create(account=account, pet=known)
    for given in (None, order.pk, None):
        event = PetEvent(pet=known, order_id=given, to_status="sold", by=AroundKey("after "))
        run(lambda event=event: insert_with(Pet(name="Rex", category=category), event))
    assert list(PetEvent.objects.order_by("id").values_list("order", flat=True)) == [None, order.pk, None]


@pytest.mark.parametrize("wrong", ["twin", "no account", "too long", "no name", "no category"])
def test_what_fails_for_one_row_leaves_none(run: Any, account: Account, pet: Pet, wrong: str) -> None:
    if wrong == "too long" and connection.vendor == "sqlite":
        pytest.skip("SQLite takes texts of any length.")
    twin = record(account, pet, body=b"", location="", key="twin")
    twin.save()
    other = record(account, pet)
    if wrong == "twin":
        other.key = twin.key
    elif wrong == "no account":
        other.account_id = 999_999
    elif wrong == "too long":
        other.fingerprint = "a" * 65
    elif wrong == "no name":
        pet.name = ""
    else:
        pet.category_id = 999_999
    assert isinstance(run(lambda: insert_with(pet, other)), Exception)
    assert not Pet.objects.exists()
    assert IdempotencyRecord.objects.get() == twin


def test_part_of_a_transaction_is_undone_with_it(run: Any, account: Account, pet: Pet) -> None:
    @atomic
    def add(fails: bool) -> None:
        insert_with(pet, record(account, pet))
        if fails:
            raise LookupError

    assert isinstance(run(lambda: add(True)), LookupError)
    assert not Pet.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    assert run(lambda: add(False)) is None
    assert Pet.objects.get().pk == pet.pk


@NEEDS_POSTGRESQL
def test_what_is_tried_tells_of_a_contradiction_and_writes_nothing(account: Account, pet: Pet) -> None:
    assert on_the_loop(lambda: try_insert_with(pet, record(account, pet))) is True
    twin = Pet(name="Rex", category_id=pet.category_id)
    assert on_the_loop(lambda: try_insert_with(twin, record(account, twin))) is False
    assert Pet.objects.get() == pet
    assert IdempotencyRecord.objects.count() == 1


@NEEDS_POSTGRESQL
def test_what_is_tried_is_no_part_of_a_transaction(account: Account, pet: Pet) -> None:
    assert on_the_loop(atomic(lambda: try_insert_with(pet, record(account, pet)))) is False
    assert not Pet.objects.exists()


def test_in_threads_nothing_is_tried(account: Account, pet: Pet) -> None:
    assert try_insert_with(pet, record(account, pet)) is False
    assert not Pet.objects.exists()


def test_the_key_has_one_place_in_a_text() -> None:
    for data in ({"id": 1}, {"id": KEY, "parent": KEY}):
        with pytest.raises(ValueError, match="unpack"):
            AroundKey.json(data)
    assert AroundKey.json({"id": KEY, "name": "\0"}).text(7) == '{"id":7,"name":"\\u0000"}'
