"""A filtered list is ordered by the index of its filters; a list without an index is rejected."""

import pytest
from django.db.models import F
from django.db.models.expressions import Combinable

from accounts.models import IdempotencyRecord
from inventory.models import Category, Order, Pet
from petstore.db.keysets import OneFilterKey, TwoFilterKey, choose_order, is_one_row


@pytest.mark.parametrize(
    ("model", "columns", "order"),
    [
        (Category, set(), F("id")), (Category, {"name"}, F("id")), (Pet, {"id"}, F("id")),
        (Pet, {"status"}, F("id")), (Pet, {"category_id"}, OneFilterKey("id")),
        (Pet, {"status", "category_id"}, TwoFilterKey("id")), (Order, {"account_id", "id"}, F("id")),
        (Order, {"account_id", "status"}, TwoFilterKey("id")),
    ],
)  # fmt: skip
def test_order_follows_the_filters_index(model: type[Pet], columns: set[str], order: Combinable) -> None:
    assert choose_order(model, frozenset(columns)) == order


@pytest.mark.parametrize(
    ("model", "columns", "is_unique"),
    [
        (Category, {"name"}, True),
        (Category, set(), False),
        (IdempotencyRecord, {"account_id", "idempotency_key"}, True),
        (Order, {"account_id"}, False),
        (Order, {"account_id", "id"}, True),
        (Order, {"pet_id"}, False),  # A pet has at most one open order, but any number of closed ones.
        (Pet, {"id"}, True),
    ],
)
def test_unique_constraint_selects_one_row(model: type[Pet], columns: set[str], is_unique: bool) -> None:
    assert is_one_row(model, frozenset(columns)) is is_unique


@pytest.mark.parametrize(
    ("model", "columns"),
    [(Pet, {"created_at"}), (Category, {"description"}), (Order, {"pet_id", "status"})],
)
def test_list_without_an_index_is_rejected(model: type[Pet], columns: set[str]) -> None:
    with pytest.raises(LookupError, match="no index for a list by"):
        choose_order(model, frozenset(columns))
