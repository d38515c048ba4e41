"""The statements of each endpoint. Each one more would cost every request a round trip.

On the event loop, a query of Django's ORM works as it does everywhere, so only these tests notice one that
was added by accident.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection

from accounts.models import Account
from inventory.models import Order, Pet
from inventory.serializers import MAX_BATCH
from tests.conftest import Api
from tests.support.costs import recorded_statements

ON_POSTGRESQL = connection.vendor == "postgresql"
ADMIT = "UPDATE accounts_quotausage"


def insert_with_event(table: str) -> list[str]:
    return [f"WITH {table}"] if ON_POSTGRESQL else [f"INSERT {table}", "INSERT accounts_outboxevent"]


CREATE_PET = insert_with_event("inventory_pet")
LIMIT_LOCK_WAIT = ["SELECT set_config"] if ON_POSTGRESQL else []
RESTORE_LOCK_WAIT = ["SET lock_timeout"] if ON_POSTGRESQL else []
FIND_RECORD = "SELECT accounts_idempotencyrecord"
CLAIM = [*LIMIT_LOCK_WAIT, "INSERT accounts_idempotencyrecord", *RESTORE_LOCK_WAIT]
STORE_RESPONSE = "UPDATE accounts_idempotencyrecord"
CHANGE_PET = ["UPDATE inventory_pet", *insert_with_event("inventory_petevent")]
PLACE_ORDER = [
    "SELECT inventory_pet", "INSERT inventory_order", *insert_with_event("inventory_orderevent"),
    *CHANGE_PET,
]  # fmt: skip
CANCEL_ORDER = [
    "SELECT inventory_order", "UPDATE inventory_order", *insert_with_event("inventory_orderevent"),
    "SELECT inventory_pet", *CHANGE_PET,
]  # fmt: skip


def describe(sql: str) -> str:
    """Return the first word of a statement, and its first table, function or setting."""
    subject = re.search(r"(?:inventory|accounts)_[a-z]+|set_config|lock_timeout", sql)
    assert subject, sql
    return f"{sql.split(maxsplit=1)[0]} {subject[0]}"


def list_statements(send: Callable[[], Any], status: int) -> list[str]:
    with recorded_statements() as statements:
        assert send().status_code == status
    return [describe(sql) for sql, _ in statements if "SAVEPOINT" not in sql]


@pytest.fixture
def used_api(api: Api, pet: Pet) -> Api:
    """A client whose key has been used before."""
    assert api.post("/pets", {"name": "Max", "categoryId": pet.category_id}).status_code == 201
    return api


def test_read_takes_one_statement(used_api: Api, pet: Pet, account: Account) -> None:
    order = Order.objects.create(account=account, pet=pet)
    for path, statement in {
        "/pets": "SELECT inventory_pet",
        "/pets?status=sold&limit=100": "SELECT inventory_pet",
        f"/pets/{pet.pk}": "SELECT inventory_pet",
        "/categories": "SELECT inventory_category",
        "/events": "SELECT accounts_event",
        "/store/orders": "SELECT inventory_order",
        f"/store/orders/{order.pk}": "SELECT inventory_order",
    }.items():
        assert list_statements(partial(used_api.get, path), 200) == [ADMIT, statement]


def test_account_is_read_without_counting(used_api: Api) -> None:
    read = "SELECT accounts_apikey"
    statements = list_statements(lambda: used_api.get("/account"), 200)
    assert statements == [read, "INSERT accounts_ratelimitstate", read]


def test_create(used_api: Api, pet: Pet) -> None:
    body = {"name": "Rex", "categoryId": pet.category_id}
    send = partial(used_api.post, "/pets", body)
    send_with_key = partial(send, Idempotency_Key="a")
    assert list_statements(send, 201) == [ADMIT, *CREATE_PET]
    statements = [ADMIT, FIND_RECORD, *CLAIM, *CREATE_PET, STORE_RESPONSE]
    assert list_statements(send_with_key, 201) == statements
    assert list_statements(send_with_key, 201) == [ADMIT, FIND_RECORD]  # It is replayed.


def test_batch_takes_as_many_statements_for_any_number_of_pets(used_api: Api, pet: Pet) -> None:
    new_pet = {"name": "Rex", "categoryId": pet.category_id}
    counts = []
    for count in (2, MAX_BATCH):
        with recorded_statements() as statements:
            assert used_api.post("/pets/batch", {"pets": [new_pet] * count}).status_code == 201
        counts.append(len([sql for sql, _ in statements if "SAVEPOINT" not in sql]))
    assert counts[0] == counts[1] <= len([ADMIT, "SELECT inventory_category", *CREATE_PET]) + 2


def test_order_is_placed_and_cancelled(used_api: Api, pet: Pet) -> None:
    place = partial(used_api.post, "/store/orders", {"petId": pet.pk})
    assert list_statements(place, 201) == [ADMIT, *PLACE_ORDER]
    assert list_statements(place, 409) == [ADMIT, "SELECT inventory_pet"]
    cancel = partial(used_api, "DELETE", f"/store/orders/{Order.objects.get().pk}")
    assert list_statements(cancel, 204) == [ADMIT, *CANCEL_ORDER]
    assert list_statements(cancel, 204) == [ADMIT, "SELECT inventory_order"]
