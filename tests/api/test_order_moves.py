"""Transitions of pets and orders, their history, and database constraints: D12, D14, D15."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import Account, PlanCode
from inventory.models import Category, Order, OrderStatus, Pet, PetEvent, PetStatus, TransitionError

Place = Callable[..., Order]
BUYER, STAFF = "key buyer", "staff ann"
PLACED, APPROVED, DELIVERED, CANCELLED = OrderStatus
AVAILABLE, PENDING, SOLD = PetStatus

VERBS: dict[str, Callable[[Order], None]] = {
    "approve": lambda order: order.approve(by=STAFF),
    "ship": lambda order: order.ship(by=STAFF),
    "deliver": lambda order: order.deliver(by=STAFF),
    "cancel": lambda order: order.cancel(by=STAFF),
    "cancel as a client": lambda order: order.cancel(by=BUYER, only_placed=True),
    "return": lambda order: order.return_pet(by=STAFF, reason="Allergic."),
}

# The statuses of the order and its pet after each legal transition.
LEGAL = {
    (PLACED, "approve"): (APPROVED, PENDING),
    (PLACED, "cancel"): (CANCELLED, AVAILABLE),
    (PLACED, "cancel as a client"): (CANCELLED, AVAILABLE),
    (APPROVED, "ship"): (APPROVED, PENDING),
    (APPROVED, "deliver"): (DELIVERED, SOLD),
    (APPROVED, "cancel"): (CANCELLED, AVAILABLE),
    (DELIVERED, "return"): (DELIVERED, AVAILABLE),
    (CANCELLED, "cancel"): (CANCELLED, AVAILABLE),  # Changes nothing.
    (CANCELLED, "cancel as a client"): (CANCELLED, AVAILABLE),
}
ILLEGAL = [(status, verb) for status in OrderStatus for verb in VERBS if (status, verb) not in LEGAL]

PATHS = {PLACED: [], APPROVED: ["approve"], DELIVERED: ["approve", "deliver"], CANCELLED: ["cancel"]}


@pytest.fixture
def place(account: Account, pet: Pet) -> Place:
    """Place an order, and bring it to a status."""

    def place(status: OrderStatus = PLACED, *, is_fresh: bool = True) -> Order:
        order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by=BUYER)
        for verb in PATHS[status]:
            VERBS[verb](order if is_fresh else Order.objects.get(pk=order.pk))
        return order

    return place


def get_statuses(order: Order) -> tuple[str, str]:
    return Order.objects.values_list("status", "pet__status").get(pk=order.pk)


def get_order_history(order: Order) -> list[tuple[str, str, str, str]]:
    return list(order.events.order_by("id").values_list("from_status", "to_status", "by", "reason"))


def get_pet_history(pet: Pet) -> list[tuple[str, str, str, str, int | None]]:
    events = pet.events.order_by("id")
    return list(events.values_list("from_status", "to_status", "by", "reason", "order_id"))


# --- Orders ---------------------------------------------------------------------------------------


@pytest.fixture(params=["fresh", "stale"])
def is_fresh(request: pytest.FixtureRequest) -> bool:
    """Whether the instance has the status of its row. Transitions are checked against the row."""
    return bool(request.param == "fresh")


@pytest.mark.parametrize(("status", "verb"), LEGAL)
def test_allowed_transition_changes_order_and_pet_together(
    place: Place, status: OrderStatus, verb: str, *, is_fresh: bool
) -> None:
    order = place(status, is_fresh=is_fresh)
    VERBS[verb](order)
    assert (order.status, get_statuses(order)) == (LEGAL[status, verb][0], LEGAL[status, verb])


@pytest.mark.parametrize(("status", "verb"), ILLEGAL)
def test_forbidden_transition_is_rejected_without_effect(
    place: Place, pet: Pet, status: OrderStatus, verb: str, *, is_fresh: bool
) -> None:
    order = place(status, is_fresh=is_fresh)
    before = get_statuses(order), get_order_history(order), get_pet_history(pet), order.ship_date
    with pytest.raises(TransitionError) as raised:
        VERBS[verb](order)
    assert ("was returned or has changed since" if verb == "return" else status) in raised.value.message
    order.refresh_from_db()
    after = get_statuses(order), get_order_history(order), get_pet_history(pet), order.ship_date
    assert after == before


def test_ship_date_defaults_to_now_and_only_an_explicit_one_replaces_it(place: Place) -> None:
    order = place(APPROVED)
    before = datetime.now(UTC)
    order.ship(by=STAFF)
    assert order.ship_date is not None
    assert before <= order.ship_date <= datetime.now(UTC)
    with pytest.raises(TransitionError, match="already has a ship date"):
        order.ship(by=STAFF)
    later = datetime(2027, 1, 2, 3, 4, tzinfo=UTC)
    order.ship(by=STAFF, ship_date=later)
    assert order.ship_date == later
    order.cancel(by=STAFF, reason="The van broke down.")
    assert get_statuses(order) == (CANCELLED, AVAILABLE)


def test_unavailable_pet_cannot_be_ordered(place: Place, pet: Pet) -> None:
    for status in (PENDING, SOLD):
        pet.change_status(status, by=STAFF)
        before = get_pet_history(pet)
        with pytest.raises(TransitionError, match="not available"):
            place()
        assert not Order.objects.exists()
        assert get_pet_history(pet) == before


@pytest.mark.parametrize(("status", "verb"), [(APPROVED, "deliver"), (PLACED, "cancel")])
def test_failure_during_transition_changes_neither_order_nor_pet(
    place: Place, pet: Pet, monkeypatch: pytest.MonkeyPatch, status: OrderStatus, verb: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PetEvent, "__init__", Mock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            place()
    pet.refresh_from_db()
    assert (pet.status, Order.objects.exists()) == (AVAILABLE, False)
    order = place(status)
    monkeypatch.setattr(Order, "record_change", Mock(side_effect=RuntimeError))
    with pytest.raises(RuntimeError):
        VERBS[verb](order)
    assert get_statuses(order) == (status, PENDING)


# --- Pets -----------------------------------------------------------------------------------------

PET_LEGAL = {
    (AVAILABLE, PENDING),
    (AVAILABLE, SOLD),
    (PENDING, AVAILABLE),
    (PENDING, SOLD),
    (SOLD, AVAILABLE),
}


@pytest.mark.parametrize("reason", [" \n", "The children are allergic."])
@pytest.mark.parametrize(("from_status", "to_status"), [*product(PetStatus, repeat=2)])
def test_pet_changes_its_status_as_allowed_and_is_returned_with_a_reason(
    category: Category, from_status: PetStatus, to_status: PetStatus, reason: str
) -> None:
    pet = Pet.objects.create(name="Biscuit", category=category, status=from_status)
    before = pet.updated_at
    is_allowed = (from_status, to_status) in PET_LEGAL and bool(from_status != SOLD or reason.strip())
    with nullcontext() if is_allowed else pytest.raises(TransitionError):
        pet.change_status(to_status, by=STAFF, reason=reason)
    assert pet.status == Pet.objects.get().status == (to_status if is_allowed else from_status)
    assert (pet.updated_at > before) is is_allowed
    assert get_pet_history(pet) == [(from_status, to_status, STAFF, reason, None)] * is_allowed


@pytest.mark.parametrize("status", [PLACED, APPROVED])
def test_staff_change_the_pet_of_an_order_only_once_it_is_finished(
    place: Place, pet: Pet, status: OrderStatus
) -> None:
    order = place(status)
    before = get_pet_history(pet)
    for to_status in PetStatus:
        with pytest.raises(TransitionError, match=f"Order {order.pk} holds pet {pet.pk}"):
            pet.change_status(to_status, by=STAFF, reason="Because.")
    assert get_statuses(order) == (status, PENDING)
    assert get_pet_history(pet) == before
    order.cancel(by=STAFF)
    pet.change_status(SOLD, by=STAFF)
    assert get_statuses(order) == (CANCELLED, SOLD)


def test_transition_reads_the_row_instead_of_a_stale_instance(category: Category) -> None:
    stale_pet = Pet.objects.create(name="Biscuit", category=category)
    Pet.objects.update(name="Pickle", status=SOLD)
    with pytest.raises(TransitionError):
        stale_pet.change_status(PENDING, by=STAFF, reason="Because.")
    stale_pet.change_status(AVAILABLE, by=STAFF, reason="Because.")
    assert (stale_pet.name, Pet.objects.get().name) == ("Pickle", "Pickle")


# --- Histories ------------------------------------------------------------------------------------


def test_order_history_has_actor_and_statuses(place: Place) -> None:
    order = place()
    order.approve(by=STAFF, reason="Paid.")
    order.ship(by=STAFF, ship_date=datetime(2027, 1, 2, 1, 0, tzinfo=timezone(timedelta(hours=2))))
    order.deliver(by=STAFF, reason="Signed for.")
    assert get_order_history(order) == [
        ("", PLACED, BUYER, ""),
        (PLACED, APPROVED, STAFF, "Paid."),
        (APPROVED, APPROVED, STAFF, "Ships 2027-01-01 23:00 UTC."),
        (APPROVED, DELIVERED, STAFF, "Signed for."),
    ]


def test_pet_history_names_the_order(place: Place, pet: Pet) -> None:
    first = place()
    first.cancel(by=BUYER, reason="Too small.", only_placed=True)
    second = place(DELIVERED)
    pet.change_status(AVAILABLE, by=STAFF, reason="é" * 300)  # It is truncated.
    assert get_pet_history(pet) == [
        (AVAILABLE, PENDING, BUYER, "", first.pk),
        (PENDING, AVAILABLE, BUYER, "Too small.", first.pk),
        (AVAILABLE, PENDING, BUYER, "", second.pk),
        (PENDING, SOLD, STAFF, "", second.pk),
        (SOLD, AVAILABLE, STAFF, "é" * 255, second.pk),
    ]


# --- Database constraints ------------------------------------------------------------------------


def execute(sql: str, *values: Any) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, values)


def reject(sql: str, *values: Any) -> None:
    with pytest.raises(IntegrityError):
        execute(sql, *values)


INSERT_ORDER = (
    "INSERT INTO inventory_order (account_id, pet_id, status, created_at, updated_at)"
    " VALUES (%s, %s, %s, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)"
)


@pytest.mark.parametrize("first", [PLACED, APPROVED])
def test_pet_has_at_most_one_live_order(place: Place, pet: Pet, first: OrderStatus) -> None:
    place(first)
    other = Account.objects.create(name="Other Pets", plan_id=PlanCode.FREE)
    for status in (DELIVERED, DELIVERED, CANCELLED, CANCELLED):
        execute(INSERT_ORDER, other.pk, pet.pk, status)
    for status in (PLACED, APPROVED):
        reject(INSERT_ORDER, other.pk, pet.pk, status)
        reject("UPDATE inventory_order SET status = %s WHERE account_id = %s", status, other.pk)


def test_order_and_pet_have_known_statuses(place: Place) -> None:
    place()
    for table, status in (("order", "available"), ("pet", "placed"), ("order", "Placed"), ("pet", "")):
        reject(f"UPDATE inventory_{table} SET status = %s", status)


def test_placed_order_has_no_ship_date(place: Place) -> None:
    order = place()
    reject("UPDATE inventory_order SET ship_date = CURRENT_TIMESTAMP")
    order.approve(by=STAFF)
    execute("UPDATE inventory_order SET ship_date = CURRENT_TIMESTAMP")
