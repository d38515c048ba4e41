"""The order of a filtered list is that of an index made for it, and a list without one is refused."""

import pytest
from django.db.models import F
from django.db.models.expressions import Combinable

from accounts.models import IdempotencyRecord
from inventory.models import Category, Order, Pet
from petstore.db.keysets import OneFilterKey, TwoFilterKey, order_for

LISTS = [
    (Category, set(), F("id")),
    (Pet, {"status"}, F("id")),
    (Pet, {"category_id"}, OneFilterKey("id")),
    (Pet, {"status", "category_id"}, TwoFilterKey("id")),
    (Order, {"account_id", "status"}, TwoFilterKey("id")),
]


@pytest.mark.parametrize(("model", "columns", "order"), LISTS)
def test_order_is_that_of_the_index_for_the_filters(
    model: type[Pet], columns: set[str], order: Combinable
) -> None:
    assert order_for(model, frozenset(columns)) == order


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (Category, {"name"}),
        (Pet, {"id"}),
        (Order, {"account_id", "id"}),
        (IdempotencyRecord, {"account_id", "key"}),
    ],
)
def test_what_is_one_row_has_no_order(model: type[Pet], columns: set[str]) -> None:
    assert order_for(model, frozenset(columns)) is None


@pytest.mark.parametrize(
    ("model", "columns"),
    [(Pet, {"created_at"}), (Category, {"description"}), (Order, {"pet_id", "status"})],
)
def test_list_without_an_index_is_refused(model: type[Pet], columns: set[str]) -> None:
    with pytest.raises(LookupError, match="no index for a list by"):
        order_for(model, frozenset(columns))
