"""A filtered list is ordered by the index of its filters; a list without an index is rejected."""

from typing import Any

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


def test_unique_constraint_selects_one_row() -> None:
    unique: list[tuple[Any, set[str]]] = [
        (Category, {"name"}), (IdempotencyRecord, {"account_id", "idempotency_key"}),
        (Order, {"account_id", "id"}), (Pet, {"id"}),
    ]  # fmt: skip
    for model, columns in unique:
        assert is_one_row(model, frozenset(columns))
    assert not is_one_row(Category, frozenset())
    # A pet has at most one open order, but any number of closed ones.
    for column in ("account_id", "pet_id"):
        assert not is_one_row(Order, frozenset({column}))


@pytest.mark.parametrize(
    ("model", "columns"),
    [(Pet, {"created_at"}), (Category, {"description"}), (Order, {"pet_id", "status"})],
)
def test_list_without_an_index_is_rejected(model: type[Pet], columns: set[str]) -> None:
    with pytest.raises(LookupError, match="no index for a list by"):
        choose_order(model, frozenset(columns))
