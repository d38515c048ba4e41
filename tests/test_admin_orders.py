"""Orders and the moves of pets in the back office: D15."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import Account
from inventory.models import Category, Order, Pet

ORDERS = "/admin/inventory/order/"


@pytest.fixture
def staff(db: None) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="boss", is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet.objects.create(name="Biscuit", category=category)


@pytest.fixture
def order(account: Account, pet: Pet) -> Order:
    return Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")


def act(staff: Client, action: str, *orders: Order) -> str:
    chosen = {"action": action, "_selected_action": [order.pk for order in orders]}
    return str(staff.post(ORDERS, chosen, follow=True).text)


def test_order_goes_its_way_and_the_pet_is_sold(staff: Client, order: Order, pet: Pet) -> None:
    for action in ("approve", "ship", "deliver"):
        assert "1 orders" in act(staff, action, order)
    order.refresh_from_db()
    pet.refresh_from_db()
    assert (order.status, pet.status) == ("delivered", "sold")
    assert order.ship_date is not None
    by = set(order.events.exclude(by="tests").values_list("by", flat=True))
    assert by == {"staff boss"}


def test_cancelled_order_gives_the_pet_free(staff: Client, order: Order, pet: Pet) -> None:
    act(staff, "approve", order)
    act(staff, "cancel", order)
    pet.refresh_from_db()
    assert pet.status == "available"


@pytest.mark.parametrize("action", ["ship", "deliver"])
def test_order_that_does_not_allow_it_is_skipped_and_the_reason_given(
    staff: Client, order: Order, action: str
) -> None:
    page = act(staff, action, order)
    assert f"Skipped: Order {order.pk} is placed" in page
    order.refresh_from_db()
    assert order.status == "placed"


@pytest.mark.parametrize("page", ["add/", "{order}/delete/"])
def test_orders_are_neither_added_nor_deleted_by_staff(staff: Client, order: Order, page: str) -> None:
    assert staff.get(ORDERS + page.format(order=order.pk)).status_code == 403


def test_orders_page_and_history_are_shown(staff: Client, order: Order) -> None:
    assert "Acme Pets" in staff.get(ORDERS).text
    assert "history of the order" in staff.get(f"{ORDERS}{order.pk}/change/").text.lower()


def edit(staff: Client, pet: Pet, **changes: Any) -> Any:
    form = {"name": pet.name, "category": pet.category_id, "status": pet.status, "reason": ""}
    return staff.post(f"/admin/inventory/pet/{pet.pk}/change/", form | changes)


def test_pet_moves_by_hand_with_a_history(staff: Client, pet: Pet) -> None:
    assert edit(staff, pet, status="sold", name="Biscuit II").status_code == 302
    pet.refresh_from_db()
    assert (pet.status, pet.name) == ("sold", "Biscuit II")
    event = pet.events.get()
    assert (event.from_status, event.to_status, event.by) == ("available", "sold", "staff boss")


def test_return_needs_a_reason(staff: Client, pet: Pet) -> None:
    edit(staff, pet, status="sold")
    assert "say why it was returned" in edit(staff, pet, status="available").text.replace("&#x27;", "'")
    edit(staff, pet, status="available", reason="The buyer is allergic.")
    pet.refresh_from_db()
    assert pet.status == "available"
    assert pet.events.latest("id").reason == "The buyer is allergic."


def test_pet_on_a_live_order_can_not_be_moved_by_hand(staff: Client, order: Order, pet: Pet) -> None:
    pet.refresh_from_db()
    assert f"Order {order.pk} holds pet" in edit(staff, pet, status="available").text
    pet.refresh_from_db()
    assert pet.status == "pending"


def test_pet_that_has_orders_can_not_be_deleted(staff: Client, order: Order, pet: Pet) -> None:
    page = staff.post(f"/admin/inventory/pet/{pet.pk}/delete/", {"post": "yes"})
    assert page.status_code in {200, 403}
    assert Pet.objects.filter(pk=pet.pk).exists()
