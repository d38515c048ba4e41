"""Orders that many requests on one event loop want to place or cancel at the same time."""

from collections.abc import Callable

import pytest
from django.db import connection

from accounts.models import Account
from inventory.models import Category, IllegalMoveError, Order, OrderEvent, Pet, PetEvent
from tests.conftest import COMMITTED
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import serve

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

MANY = 40


@pytest.fixture
def pets(category: Category) -> list[Pet]:
    return [Pet.objects.create(name=f'Zoë "{number}"', category=category) for number in range(MANY)]


def placing(account: Account, pet: Pet) -> Callable[[], Order]:
    return lambda: Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="key a")


def cancelling(order: Order) -> Callable[[], None]:
    return lambda: order.cancel(by="key b", reason="Mistake", only_placed=True)


def test_of_many_who_want_a_pet_at_once_one_gets_it(account: Account, pets: list[Pet]) -> None:
    outcomes = serve(*(placing(account, pet) for pet in pets[:2] for _ in range(MANY)))
    assert sum(isinstance(one, Order) for one in outcomes) == 2
    assert sum(isinstance(one, IllegalMoveError) for one in outcomes) == 2 * MANY - 2
    assert Order.objects.count() == OrderEvent.objects.count() == PetEvent.objects.count() == 2


def test_an_order_that_many_cancel_at_once_is_cancelled_once(account: Account, pets: list[Pet]) -> None:
    (order,) = serve(placing(account, pets[0]))
    seen = [Order.objects.get(pk=order.pk) for _ in range(MANY)]
    connection.close()
    assert set(serve(*map(cancelling, seen))) == {None}
    assert OrderEvent.objects.filter(to_status="cancelled").count() == 1
    assert PetEvent.objects.filter(to_status="available").count() == 1


def test_an_order_that_was_approved_after_it_was_read_is_not_cancelled(
    account: Account, pets: list[Pet]
) -> None:
    (order,) = serve(placing(account, pets[0]))
    Order.objects.get(pk=order.pk).approve(by="staff")
    connection.close()
    (outcome,) = serve(cancelling(order))
    assert isinstance(outcome, IllegalMoveError)
    assert Pet.objects.get(pk=pets[0].pk).status == "pending"
