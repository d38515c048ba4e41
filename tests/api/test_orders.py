"""Orders in the API: D12-D14, and D7, D9, D18, D29 and D32 as they apply to orders.

The tests of pets cover the rules of all lists and bodies, test_idempotency.py covers D31.
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db.models import ProtectedError

from accounts.models import Account, PlanCode
from inventory.models import Category, Order, OrderStatus, Pet
from tests.conftest import Api, Issue
from tests.support.int64_texts import UNKNOWN_PATH_IDS
from tests.support.responses import follow_pages, get_error, get_next_path

INT64_MAX = 2**63 - 1
STAFF = "staff tests"


@pytest.fixture
def pets(category: Category) -> list[Pet]:
    return Pet.objects.bulk_create(Pet(name=f"Pet {number}", category=category) for number in range(12))


@pytest.fixture
def other(issue: Issue) -> Api:
    return Api(issue(Account.objects.create(name="Other Pets", plan_id=PlanCode.BUSINESS))[1])


def place_order(api: Api, pet: Pet) -> Order:
    response = api.post("/store/orders", {"petId": pet.id})
    assert response.status_code == 201
    return Order.objects.get(pk=response.json()["id"])


def order_path(order: Order) -> str:
    return f"/store/orders/{order.pk}"


def build_placed_order(order: Order, pet: Pet) -> dict[str, Any]:
    defaults = {"quantity": 1, "status": "placed", "shipDate": None, "complete": False}
    return {"id": order.id, "petId": pet.id} | defaults


def test_order_is_placed_and_the_pet_is_pending(api: Api, pet: Pet, account: Account) -> None:
    ignored = {"id": 77, "quantity": 9, "status": "delivered", "complete": True, "shipDate": "x"}
    response = api.post("/store/orders", {"petId": pet.id} | ignored)
    order = Order.objects.get()
    assert response.status_code == 201
    assert response.json() == build_placed_order(order, pet)
    assert response.headers["Location"] == f"http://testserver/v1/store/orders/{order.id}"
    assert order.account == account
    assert api.get(f"/pets/{pet.id}").json()["status"] == "pending"


def test_missing_or_invalid_pet_id_is_reported(api: Api, pet: Pet) -> None:
    missing, invalid = "missing_field", "invalid_field"
    for body, code in ((b"", missing), (b'{"pet_id": 1}', missing), (b'{"petId": "1"}', invalid)):
        response = api.post("/store/orders", body)
        assert get_error(response) == (400, code)
        (problem,) = response.json()["details"]
        assert (problem["field"], problem["code"]) == ("petId", code)
    assert not Order.objects.exists()


def test_pet_must_exist_and_be_available(api: Api, other: Api, pet: Pet) -> None:
    for pet_id in (0, -1, 999_999, INT64_MAX, -(2**63)):
        assert get_error(api.post("/store/orders", {"petId": pet_id})) == (404, "pet_not_found")
    place_order(api, pet)
    for client in (api, other):
        assert get_error(client.post("/store/orders", {"petId": pet.id})) == (409, "pet_not_available")
    assert Order.objects.count() == 1


@pytest.mark.parametrize(
    ("ship_date", "expected_date"),
    [
        (datetime(2026, 3, 1, 9, 30, 0, 5, tzinfo=UTC), "2026-03-01T09:30:00.000005Z"),
        (datetime(2026, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2))), "2026-02-28T22:30:00Z"),
    ],
)
def test_order_is_fetched_and_listed_in_its_current_state(
    api: Api, pet: Pet, ship_date: datetime, expected_date: str
) -> None:
    order = place_order(api, pet)
    expected = build_placed_order(order, pet)
    assert api.get(order_path(order)).json() == expected
    order.approve(by=STAFF)
    assert get_error(api("DELETE", order_path(order))) == (409, "order_not_cancellable")
    assert api.get(order_path(order)).json() == expected | {"status": "approved"}
    order.ship(by=STAFF, ship_date=ship_date)
    shipped = expected | {"shipDate": expected_date}
    assert api.get(order_path(order)).json() == shipped | {"status": "approved"}
    order.deliver(by=STAFF)
    delivered = shipped | {"status": "delivered", "complete": True}
    assert api.get(order_path(order)).json() == delivered
    assert get_error(api("DELETE", order_path(order))) == (409, "order_not_cancellable")
    assert api.get("/store/orders").json() == [delivered]
    with pytest.raises(ProtectedError):
        pet.delete()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_order_of_others_or_unknown_is_not_found(api: Api, other: Api, pet: Pet, method: str) -> None:
    order = place_order(api, pet)
    unknown = [other(method, f"/store/orders/{order_id}") for order_id in UNKNOWN_PATH_IDS]
    foreign = other(method, order_path(order))
    for response in (foreign, *unknown):
        assert get_error(response) == (404, "order_not_found")
    assert foreign.content == unknown[0].content
    order.refresh_from_db()
    assert order.status == OrderStatus.PLACED


def test_cancellation_releases_the_pet_once(api: Api, other: Api, pet: Pet) -> None:
    order = place_order(api, pet)
    response = api("DELETE", order_path(order))
    assert (response.status_code, response.content) == (204, b"")
    assert "Content-Type" not in response.headers
    assert api.get(f"/pets/{pet.id}").json()["status"] == "available"
    assert api.get(order_path(order)).json()["status"] == "cancelled"
    place_order(other, pet)
    second = api("DELETE", order_path(order))
    assert (second.status_code, second.content) == (204, b"")
    assert api.get(f"/pets/{pet.id}").json()["status"] == "pending"
    assert order.events.count() == 2


def test_account_lists_only_its_own_orders(api: Api, other: Api, pets: list[Pet]) -> None:
    orders: dict[Api, list[int]] = {api: [], other: []}
    for number, pet in enumerate(pets):
        client = (api, other)[number % 2]
        orders[client].append(place_order(client, pet).id)
    next_path = get_next_path(api.get("/store/orders?limit=1"))
    assert next_path is not None
    assert [order["id"] for order in other.get(next_path).json()] == orders[other][:1]  # Its own.
    for client, ids in orders.items():
        assert [order["id"] for order in client.get("/store/orders").json()] == ids
        assert [order["id"] for (order,) in follow_pages(client, "/store/orders?limit=1")] == ids


def test_status_filters_on_every_page(api: Api, other: Api, pets: list[Pet]) -> None:
    orders = [place_order(api, pet) for pet in pets]
    for number, order in enumerate(orders):
        Order.objects.filter(pk=order.pk).update(status=OrderStatus.values[number % 4])
    for number, status in enumerate(OrderStatus.values):
        expected = [order.pk for order in orders[number::4]]
        pages = list(follow_pages(api, f"/store/orders?status={status}&limit=2"))
        assert [[order["id"] for order in page] for page in pages] == [expected[:2], expected[2:]]
        assert {order["status"] for page in pages for order in page} == {status}
        assert {order["complete"] for page in pages for order in page} == {status == "delivered"}
        assert other.get(f"/store/orders?status={status}").json() == []
