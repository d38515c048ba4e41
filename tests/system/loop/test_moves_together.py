"""Orders on the event loop are placed and cancelled together, and each is as if it had been alone."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from accounts.models import Account, EventDraft
from inventory.models import Category, IllegalMoveError, Order, OrderEvent, Pet, PetEvent
from petstore.loop.compiled_writes import atomic
from petstore.loop.linked_inserts import Move, try_move_with
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


def transactions(table: str) -> int:
    """Return how many transactions have written the rows that there are."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(DISTINCT xmin::text) FROM {table}")
        found: int = cursor.fetchone()[0]
    return found


def history(order: Order) -> list[list[Any]]:
    """Return all that was written of the one order and the pets, but for the times and the order's id."""
    fields = "from_status", "to_status", "by", "reason"
    drafts = EventDraft.objects.order_by("type", "id")
    found: list[list[Any]] = [
        list(OrderEvent.objects.filter(order=order).order_by("id").values_list(*fields)),
        list(PetEvent.objects.filter(order=order).order_by("id").values_list(*fields, "pet_id")),
        [one.data.replace(f'"order":{{"id":{order.pk},', '"order":{') for one in drafts],
        [(one.account_id, one.type) for one in drafts],
        list(Order.objects.order_by("id").values_list("account_id", "pet_id", "status", "ship_date")),
        list(Pet.objects.order_by("id").values_list("status", flat=True)),
    ]
    connection.close()
    return found


def test_orders_that_come_at_once_are_few_transactions(account: Account, pets: list[Pet]) -> None:
    orders = serve(*(placing(account, pet) for pet in pets))
    assert [order.pet_id for order in orders] == [pet.pk for pet in pets]
    assert transactions("inventory_order") <= MANY / 4
    assert set(serve(*(cancelling(order) for order in orders))) == {None}
    assert transactions("inventory_order") <= MANY / 4
    assert {order.status for order in orders} == {"cancelled"}
    assert set(Order.objects.values_list("status", flat=True)) == {"cancelled"}
    assert set(Pet.objects.values_list("status", flat=True)) == {"available"}
    assert (OrderEvent.objects.count(), PetEvent.objects.count()) == (2 * MANY, 2 * MANY)


def test_what_one_statement_writes_is_what_a_transaction_would(account: Account, pets: list[Pet]) -> None:
    pet = pets[0]
    EventDraft.objects.all().delete()
    (order,) = serve(placing(account, pet))
    serve(cancelling(order))
    at_once = history(order)
    for model in (OrderEvent, PetEvent, EventDraft, Order):
        model.objects.all().delete()
    in_turn = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="key a")
    in_turn.cancel(by="key b", reason="Mistake", only_placed=True)
    assert history(in_turn) == at_once
    assert [len(part) for part in at_once] == [2, 2, 4, 4, 1, MANY]


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


@pytest.mark.parametrize("changed", ["status", "name"])
def test_nothing_is_done_if_one_row_is_not_as_it_was_read(
    account: Account, pets: list[Pet], changed: str
) -> None:
    order = placing(account, pets[0])()
    connection.close()
    read = {"status": "pending", "name": pets[0].name} | {changed: "sold"}
    moves = [
        Move(Order, order.pk, {"status": "placed"}, {"status": "cancelled"}),
        Move(Pet, pets[0].pk, read, {"status": "available"}),
    ]
    before = OrderEvent.objects.count(), EventDraft.objects.count()
    step = order.step("placed", "cancelled", by="key a", reason="")
    assert serve(lambda: try_move_with(moves, step)) == [False]
    assert (OrderEvent.objects.count(), EventDraft.objects.count()) == before
    assert Order.objects.get().status == "placed"
    assert Pet.objects.get(pk=pets[0].pk).status == "pending"


def test_nothing_is_done_off_the_loop_or_in_a_transaction(account: Account, pets: list[Pet]) -> None:
    order = placing(account, pets[0])()
    moves = [Move(Order, order.pk, {"status": "placed"}, {"status": "cancelled"})]

    def move() -> bool:
        return try_move_with(moves, order.step("placed", "cancelled", by="key a", reason=""))

    assert not move()
    connection.close()
    assert serve(atomic(move), move) == [False, True]
    assert Order.objects.get().status == "cancelled"
