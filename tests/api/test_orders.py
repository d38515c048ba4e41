"""Orders over the API: D12-D14, and what D9, D17, D18, D21, D29, D31 and D32 say of them."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db.models import ProtectedError
from django.utils import timezone as django_timezone

from accounts.models import Account, IdempotencyRecord, PlanCode
from inventory.models import Category, Order, OrderStatus, Pet, PetStatus
from tests.conftest import Api
from tests.support.int64_texts import NOT_INT64_IN_JSON, NOTHING_IN_A_PATH

INT64_MAX = 2**63 - 1
STAFF = "staff tests"
NEXT = re.compile(r'<http://testserver/v1([^>]+)>; rel="next"')

Answer = tuple[int, str | None]


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet.objects.create(name="Biscuit", category=category)


@pytest.fixture
def pets(category: Category) -> list[Pet]:
    return Pet.objects.bulk_create(Pet(name=f"Pet {number}", category=category) for number in range(12))


@pytest.fixture
def other(issue: Callable[..., Any]) -> Api:
    """A client of another account."""
    account = Account.objects.create(name="Other Pets", plan_id=PlanCode.BUSINESS)
    return Api(issue(account)[1])


def place(api: Api, pet: Pet) -> Order:
    response = api.post("/store/orders", {"petId": pet.id})
    assert response.status_code == 201
    return Order.objects.get(pk=response.json()["id"])


def path_of(order: Order) -> str:
    return f"/store/orders/{order.pk}"


def as_placed(order: Order, pet: Pet) -> dict[str, Any]:
    """Return the body of an order that is just placed."""
    return {
        "id": order.id,
        "petId": pet.id,
        "quantity": 1,
        "status": "placed",
        "shipDate": None,
        "complete": False,
    }


def answer(response: Any) -> Answer:
    """Return the status and the code of an Error, after a look at its form."""
    if response.status_code < 400:
        return response.status_code, None
    body = response.json()
    assert body.keys() - {"details"} == {"code", "message", "status"}
    assert body["status"] == response.status_code
    assert body["message"]
    return response.status_code, body["code"]


# --- placeOrder -----------------------------------------------------------------------------------


def test_order_is_placed_and_the_pet_is_pending(api: Api, pet: Pet) -> None:
    response = api.post("/store/orders", {"petId": pet.id})
    order = Order.objects.get()
    assert response.status_code == 201
    assert response.json() == as_placed(order, pet)
    assert response.headers["Location"] == f"http://testserver/v1/store/orders/{order.id}"
    assert response.headers["Content-Type"] == "application/json"
    assert api.get(f"/pets/{pet.id}").json()["status"] == "pending"


def test_order_belongs_to_the_account_of_the_key(api: Api, pet: Pet, account: Account) -> None:
    assert place(api, pet).account == account


def test_location_leads_to_the_order(api: Api, pet: Pet) -> None:
    placed = api.post("/store/orders", {"petId": pet.id})
    location = placed.headers["Location"].removeprefix("http://testserver/v1")
    assert api.get(location).json() == placed.json()


@pytest.mark.parametrize("written", ["{0}.0", "{0}e0", "{0}0e-1", "{0}.000"])
def test_number_with_an_integers_value_is_an_integer(api: Api, pet: Pet, written: str) -> None:
    body = f'{{"petId": {written.format(pet.id)}}}'.encode()
    response = api.post("/store/orders", body)
    assert (response.status_code, response.json().get("petId")) == (201, pet.id)


@pytest.mark.parametrize("written", NOT_INT64_IN_JSON)
def test_pet_id_must_be_an_int64(api: Api, pet: Pet, written: str) -> None:
    response = api.post("/store/orders", f'{{"petId": {written.format(pet.id)}}}'.encode())
    assert answer(response) == (400, "invalid_field")
    assert [(problem["field"], problem["code"]) for problem in response.json()["details"]] == [
        ("petId", "invalid_field")
    ]
    assert not Order.objects.exists()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"petID": 1}', b'{"pet_id": 1}'])
def test_body_without_pet_id_names_what_is_missing(api: Api, pet: Pet, body: bytes) -> None:
    response = api.post("/store/orders", body)
    assert answer(response) == (400, "missing_field")
    assert [(problem["field"], problem["code"]) for problem in response.json()["details"]] == [
        ("petId", "missing_field")
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"{",
        b"[]",
        b"1",
        b"null",
        b"[{}]",
        b'{"petId": NaN}',
        b'{"petId": 1, "petId": 1}',
        b"\xff",
    ],
)
def test_malformed_json_is_refused(api: Api, body: bytes) -> None:
    assert answer(api.post("/store/orders", body)) == (400, "malformed_json")


def test_other_media_types_are_refused(api: Api, pet: Pet) -> None:
    response = api.post("/store/orders", {"petId": pet.id}, Content_Type="text/plain")
    assert answer(response) == (415, "unsupported_media_type")
    assert not Order.objects.exists()


def test_too_large_a_body_is_refused(api: Api) -> None:
    assert answer(api.post("/store/orders", b" " * (64 * 1024 + 1))) == (413, "payload_too_large")


def test_unknown_members_are_ignored(api: Api, pet: Pet) -> None:
    sent = {
        "petId": pet.id,
        "id": 77,
        "quantity": 9,
        "status": "delivered",
        "complete": True,
        "shipDate": "x",
    }
    body = api.post("/store/orders", sent).json()
    assert (body["quantity"], body["status"], body["complete"], body["shipDate"]) == (
        1,
        "placed",
        False,
        None,
    )
    assert body["id"] == Order.objects.get().id


@pytest.mark.parametrize("pet_id", [0, -1, 999_999, INT64_MAX, -(2**63)])
def test_pet_must_exist(api: Api, pet: Pet, pet_id: int) -> None:
    assert answer(api.post("/store/orders", {"petId": pet_id})) == (404, "pet_not_found")


@pytest.mark.parametrize("status", [PetStatus.PENDING, PetStatus.SOLD])
def test_pet_that_is_not_available_cannot_be_ordered(
    api: Api, category: Category, status: PetStatus
) -> None:
    pet = Pet.objects.create(name="Taken", category=category, status=status)
    assert answer(api.post("/store/orders", {"petId": pet.id})) == (409, "pet_not_available")
    assert not Order.objects.exists()
    pet.refresh_from_db()
    assert pet.status == status


def test_ordered_pet_cannot_be_ordered_again_by_anybody(api: Api, other: Api, pet: Pet) -> None:
    place(api, pet)
    for client in (api, other):
        assert answer(client.post("/store/orders", {"petId": pet.id})) == (409, "pet_not_available")
    assert Order.objects.count() == 1


def test_returned_pet_can_be_ordered_again(api: Api, other: Api, pet: Pet) -> None:
    sold = place(api, pet)
    sold.approve(by=STAFF)
    sold.deliver(by=STAFF)
    pet.move(PetStatus.AVAILABLE, by=STAFF, reason="Allergy.")
    place(other, pet)
    assert api.get(path_of(sold)).json()["status"] == "delivered"


def test_pet_of_any_order_cannot_be_deleted(api: Api, pet: Pet) -> None:
    order = place(api, pet)
    order.cancel(by=STAFF)
    with pytest.raises(ProtectedError):
        pet.delete()


# --- getOrder -------------------------------------------------------------------------------------


def test_order_is_fetched_as_it_stands(api: Api, pet: Pet) -> None:
    order = place(api, pet)
    expected = as_placed(order, pet)
    assert api.get(path_of(order)).json() == expected
    order.approve(by=STAFF)
    assert api.get(path_of(order)).json() == expected | {"status": "approved"}
    order.ship(by=STAFF, ship_date=datetime(2026, 3, 1, 9, 30, tzinfo=UTC))
    shipped = expected | {"shipDate": "2026-03-01T09:30:00Z"}
    assert api.get(path_of(order)).json() == shipped | {"status": "approved"}
    order.deliver(by=STAFF)
    assert api.get(path_of(order)).json() == shipped | {"status": "delivered", "complete": True}


def test_cancelled_order_can_still_be_fetched(api: Api, pet: Pet) -> None:
    order = place(api, pet)
    api("DELETE", path_of(order))
    body = api.get(path_of(order)).json()
    assert (body["status"], body["complete"], body["shipDate"]) == ("cancelled", False, None)


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 3, 1, 9, 30, tzinfo=UTC), "2026-03-01T09:30:00Z"),
        (datetime(2026, 3, 1, 9, 30, 0, 5, tzinfo=UTC), "2026-03-01T09:30:00.000005Z"),
        (datetime(2026, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2))), "2026-02-28T22:30:00Z"),
    ],
)
def test_ship_date_is_an_rfc_3339_date_time_in_utc(
    api: Api, pet: Pet, moment: datetime, written: str
) -> None:
    order = place(api, pet)
    order.approve(by=STAFF)
    order.ship(by=STAFF, ship_date=moment)
    assert api.get(path_of(order)).json()["shipDate"] == written
    assert api.get("/store/orders").json()[0]["shipDate"] == written


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("order_id", NOTHING_IN_A_PATH)
def test_id_that_names_no_order_is_not_found(api: Api, pet: Pet, method: str, order_id: str) -> None:
    place(api, pet)
    response = api(method, f"/store/orders/{order_id}")
    assert response.status_code == 404
    if method != "HEAD":
        assert answer(response) == (404, "order_not_found")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_order_of_another_account_is_not_found(api: Api, other: Api, pet: Pet, method: str) -> None:
    order = place(api, pet)
    theirs, nobodys = other(method, path_of(order)), other(method, "/store/orders/999999")
    assert answer(theirs) == (404, "order_not_found")
    assert theirs.content == nobodys.content
    order.refresh_from_db()
    assert order.status == OrderStatus.PLACED


def test_keys_of_one_account_share_its_orders(api: Api, issue: Callable[..., Any], pet: Pet) -> None:
    order = place(api, pet)
    second = Api(issue()[1])
    assert second.get(path_of(order)).status_code == 200
    assert second("DELETE", path_of(order)).status_code == 204


# --- cancelOrder ----------------------------------------------------------------------------------


def test_cancelled_order_gives_the_pet_free(api: Api, pet: Pet) -> None:
    order = place(api, pet)
    response = api("DELETE", path_of(order))
    assert (response.status_code, response.content) == (204, b"")
    assert "Content-Type" not in response.headers
    assert api.get(f"/pets/{pet.id}").json()["status"] == "available"
    order.refresh_from_db()
    assert order.status == OrderStatus.CANCELLED


def test_second_cancellation_changes_nothing(api: Api, other: Api, pet: Pet) -> None:
    order = place(api, pet)
    api("DELETE", path_of(order))
    place(other, pet)
    second = api("DELETE", path_of(order))
    assert (second.status_code, second.content) == (204, b"")
    assert api.get(f"/pets/{pet.id}").json()["status"] == "pending"
    assert order.events.count() == 2


@pytest.mark.parametrize("delivered", [False, True])
def test_approved_order_cannot_be_cancelled_by_its_account(api: Api, pet: Pet, *, delivered: bool) -> None:
    order = place(api, pet)
    order.approve(by=STAFF)
    if delivered:
        order.deliver(by=STAFF)
    before = api.get(path_of(order)).content
    assert answer(api("DELETE", path_of(order))) == (409, "order_not_cancellable")
    assert api.get(path_of(order)).content == before
    assert api.get(f"/pets/{pet.id}").json()["status"] == ("sold" if delivered else "pending")


def test_order_that_staff_cancelled_counts_as_cancelled(api: Api, pet: Pet) -> None:
    order = place(api, pet)
    order.approve(by=STAFF)
    order.cancel(by=STAFF)
    assert api("DELETE", path_of(order)).status_code == 204


# --- listOrders -----------------------------------------------------------------------------------


def pages(api: Api, path: str) -> Iterator[list[dict[str, Any]]]:
    """Yield every page, following Link."""
    following: str | None = path
    while following:
        response = api.get(following)
        assert response.status_code == 200
        yield response.json()
        found = NEXT.fullmatch(response.headers.get("Link", ""))
        following = found[1] if found else None


def test_account_without_orders_lists_none(api: Api) -> None:
    response = api.get("/store/orders")
    assert (response.status_code, response.json()) == (200, [])
    assert "Link" not in response.headers


def test_account_lists_its_own_orders_and_no_one_elses(api: Api, other: Api, pets: list[Pet]) -> None:
    orders: dict[Api, list[int]] = {api: [], other: []}
    for number, pet in enumerate(pets):
        client = (api, other)[number % 2]
        orders[client].append(place(client, pet).id)
    for client, own in orders.items():
        assert [order["id"] for order in client.get("/store/orders").json()] == own
        assert [order["id"] for page in pages(client, "/store/orders?limit=1") for order in page] == own


def test_listed_order_has_the_form_of_a_fetched_one(api: Api, pet: Pet) -> None:
    order = place(api, pet)
    assert api.get("/store/orders").json() == [api.get(path_of(order)).json()]


@pytest.mark.parametrize("limit", [1, 5, 11, 12])
def test_pages_hold_every_order_once_by_ascending_id(api: Api, pets: list[Pet], limit: int) -> None:
    own = [place(api, pet).id for pet in reversed(pets)]
    found = list(pages(api, f"/store/orders?limit={limit}"))
    assert [order["id"] for page in found for order in page] == own
    assert {len(page) for page in found[:-1]} <= {limit}


def test_limit_defaults_to_20(api: Api, account: Account, pets: list[Pet]) -> None:
    Order.objects.bulk_create(
        Order(account=account, pet=pets[0], status=OrderStatus.CANCELLED) for _ in range(21)
    )
    assert [len(page) for page in pages(api, "/store/orders")] == [20, 1]


def in_every_status(api: Api, pets: list[Pet]) -> dict[str, list[int]]:
    """Order twelve pets, and move the orders: three for each status."""
    orders: dict[str, list[int]] = {status: [] for status in OrderStatus.values}
    for number, pet in enumerate(pets):
        order = place(api, pet)
        status = OrderStatus.values[number % 4]
        orders[status].append(order.id)
        if status in {OrderStatus.APPROVED, OrderStatus.DELIVERED}:
            order.approve(by=STAFF)
        if status == OrderStatus.DELIVERED:
            order.deliver(by=STAFF)
        if status == OrderStatus.CANCELLED:
            order.cancel(by=STAFF)
    return orders


@pytest.mark.parametrize("status", OrderStatus.values)
def test_status_filters_on_every_page(api: Api, other: Api, pets: list[Pet], status: str) -> None:
    wanted = in_every_status(api, pets)[status]
    found = list(pages(api, f"/store/orders?status={status}&limit=2"))
    assert [[order["id"] for order in page] for page in found] == [wanted[:2], wanted[2:]]
    assert {order["status"] for page in found for order in page} == {status}
    assert other.get(f"/store/orders?status={status}").json() == []


def test_complete_is_true_of_delivered_orders_alone(api: Api, pets: list[Pet]) -> None:
    delivered = in_every_status(api, pets)["delivered"]
    listed = api.get("/store/orders").json()
    assert [order["id"] for order in listed if order["complete"]] == delivered
    assert {order["complete"] for order in listed} == {True, False}


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=",
        "limit=1.0",
        "limit=5&limit=5",
        "status=",
        "status=available",
        "status=Placed",
        "status=%00",
        "status=placed&status=placed",
        "cursor=",
        "cursor=1",
        "cursor=%ff",
        "cursor=a&cursor=a",
    ],
)
def test_bad_parameter_is_invalid(api: Api, query: str) -> None:
    assert answer(api.get(f"/store/orders?{query}")) == (400, "invalid_parameter")


def test_cursor_of_another_list_is_an_invalid_parameter(api: Api, pets: list[Pet]) -> None:
    found = NEXT.fullmatch(api.get("/pets?limit=1").headers["Link"])
    assert found is not None
    query = found[1].partition("?")[2]
    assert answer(api.get(f"/store/orders?{query}")) == (400, "invalid_parameter")


def test_cursor_opens_no_ones_orders_but_the_callers(api: Api, other: Api, pets: list[Pet]) -> None:
    for pet in pets:
        place(api, pet)
    found = NEXT.fullmatch(api.get("/store/orders?limit=1").headers["Link"])
    assert found is not None
    assert other.get(found[1]).json() == []


def test_order_placed_or_cancelled_meanwhile_neither_repeats_nor_hides_another(
    api: Api, pets: list[Pet]
) -> None:
    own = [place(api, pet) for pet in pets[:10]]
    following = pages(api, "/store/orders?limit=4")
    seen = [order["id"] for order in next(following)]
    api("DELETE", path_of(own[0]))
    late = place(api, pets[11])
    seen += [order["id"] for page in following for order in page]
    assert seen == [order.id for order in own] + [late.id]


# --- What holds for all four ----------------------------------------------------------------------

OPERATIONS = [
    ("GET", "/store/orders", "orders:read"),
    ("POST", "/store/orders", "orders:write"),
    ("GET", "/store/orders/{id}", "orders:read"),
    ("DELETE", "/store/orders/{id}", "orders:write"),
]
SCOPES = {"pets:read", "pets:write", "orders:read", "orders:write"}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_needs_its_scope_and_no_other(
    api: Api, issue: Callable[..., Any], pets: list[Pet], operation: tuple[str, str, str]
) -> None:
    method, path, scope = operation
    own = path.format(id=place(api, pets[0]).id)
    body = {"petId": pets[1].id} if method == "POST" else None
    without = Api(issue(key_scopes=sorted(SCOPES - {scope}))[1])
    assert answer(without(method, own, body)) == (403, "insufficient_scope")
    assert list(Order.objects.values_list("status", flat=True)) == ["placed"]
    alone = Api(issue(key_scopes=[scope])[1])
    assert alone(method, own, body).status_code in {200, 201, 204}


@pytest.mark.parametrize(("method", "path", "scope"), OPERATIONS)
def test_operation_needs_a_key(stranger: Api, method: str, path: str, scope: str) -> None:
    response = stranger(method, path.format(id=1))
    assert answer(response) == (401, "missing_api_key")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_orders_take_get_and_post_alone(api: Api, method: str) -> None:
    response = api(method, "/store/orders")
    assert answer(response) == (405, "method_not_allowed")
    assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "OPTIONS", "TRACE"])
def test_one_order_takes_get_and_delete_alone(api: Api, pet: Pet, method: str) -> None:
    response = api(method, path_of(place(api, pet)))
    assert answer(response) == (405, "method_not_allowed")
    assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD", "DELETE"}


@pytest.mark.parametrize(
    "path", ["/store", "/store/", "/store/orders/", "/store/orders/1/", "/store/inventory"]
)
def test_paths_beside_the_orders_are_not_found(api: Api, path: str) -> None:
    assert answer(api.get(path)) == (404, "resource_not_found")


def test_every_answer_costs_one_and_says_what_is_left(api: Api, stranger: Api, pets: list[Pet]) -> None:
    first = api.post("/store/orders", {"petId": pets[0].id})
    own = f"/store/orders/{first.json()['id']}"
    answers = [
        first,
        api.post("/store/orders", {"petId": pets[0].id}),
        api.post("/store/orders", {"petId": 0}),
        api.post("/store/orders", b"{"),
        api.get("/store/orders"),
        api.get("/store/orders", If_None_Match="*"),
        api.get(own),
        api("PUT", own),
        api("DELETE", own),
        api.get("/store/orders/0"),
    ]
    statuses = [response.status_code for response in answers]
    assert statuses == [201, 409, 404, 400, 200, 304, 200, 405, 204, 404]
    left = [int(response.headers["X-RateLimit-Remaining"]) for response in answers]
    assert left == list(range(999, 989, -1))
    answers.append(stranger.get("/store/orders"))
    for response in answers:
        wanted = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id"}
        assert all(response.headers[name] for name in wanted)


@pytest.mark.parametrize("path", ["/store/orders", "/store/orders/{id}"])
def test_version_that_the_client_has_is_not_sent_again(api: Api, pet: Pet, path: str) -> None:
    order = place(api, pet)
    own = path.format(id=order.id)
    tag = api.get(own).headers["ETag"]
    same = api.get(own, If_None_Match=tag)
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    order.approve(by=STAFF)
    changed = api.get(own, If_None_Match=tag)
    assert (changed.status_code, changed.headers["ETag"] != tag) == (200, True)


@pytest.mark.parametrize("path", ["/store/orders", "/store/orders/{id}"])
def test_head_answers_as_get_without_a_body(api: Api, pet: Pet, path: str) -> None:
    own = path.format(id=place(api, pet).id)
    got, head = api.get(own), api("HEAD", own)
    assert (head.status_code, head.content) == (200, b"")
    same = {"Content-Type", "Content-Length", "ETag"}
    assert {name: head.headers[name] for name in same} == {name: got.headers[name] for name in same}


def test_list_costs_three_queries_quota_included(
    api: Api, pets: list[Pet], django_assert_num_queries: Any
) -> None:
    for pet in pets:
        place(api, pet)
    with django_assert_num_queries(3) as found:
        api.get("/store/orders")
    key, quota, page = (query["sql"] for query in found.captured_queries)
    assert "accounts_apikey" in key
    assert "accounts_quotacounter" in quota
    assert "inventory_order" in page


# --- Idempotency-Key ------------------------------------------------------------------------------


def test_retry_with_one_idempotency_key_places_one_order(api: Api, pet: Pet) -> None:
    first, second = (api("POST", "/store/orders", {"petId": pet.id}, Idempotency_Key="a") for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.headers["Location"] == first.headers["Location"]
    assert Order.objects.count() == 1


def test_retry_gives_the_first_answer_though_the_order_went_on(api: Api, pet: Pet) -> None:
    first = api("POST", "/store/orders", {"petId": pet.id}, Idempotency_Key="a")
    api("DELETE", f"/store/orders/{first.json()['id']}")
    second = api("POST", "/store/orders", {"petId": pet.id}, Idempotency_Key="a")
    assert (second.status_code, second.content) == (201, first.content)
    assert api.get(f"/pets/{pet.id}").json()["status"] == "available"


def test_idempotency_key_with_another_body_is_refused(api: Api, pets: list[Pet]) -> None:
    api("POST", "/store/orders", {"petId": pets[0].id}, Idempotency_Key="a")
    response = api("POST", "/store/orders", {"petId": pets[1].id}, Idempotency_Key="a")
    assert answer(response) == (422, "idempotency_key_reused")
    assert Order.objects.count() == 1


def test_refused_order_leaves_its_idempotency_key_free(api: Api, other: Api, pet: Pet) -> None:
    taken = place(other, pet)
    for body, expected in [
        ({"petId": pet.id}, (409, "pet_not_available")),
        ({"petId": 0}, (404, "pet_not_found")),
        ({}, (400, "missing_field")),
    ]:
        assert answer(api("POST", "/store/orders", body, Idempotency_Key="a")) == expected
    assert not IdempotencyRecord.objects.exists()
    other("DELETE", path_of(taken))
    response = api("POST", "/store/orders", {"petId": pet.id}, Idempotency_Key="a")
    assert (response.status_code, "Idempotent-Replayed" in response.headers) == (201, False)


def test_idempotency_key_is_the_accounts_own(api: Api, other: Api, pets: list[Pet]) -> None:
    first = api("POST", "/store/orders", {"petId": pets[0].id}, Idempotency_Key="a")
    second = other("POST", "/store/orders", {"petId": pets[1].id}, Idempotency_Key="a")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] != second.json()["id"]


@pytest.mark.parametrize(("age", "replayed"), [(86_390, True), (86_410, False)])
def test_idempotency_key_is_kept_for_24_hours(api: Api, pet: Pet, age: int, *, replayed: bool) -> None:
    first = api("POST", "/store/orders", {"petId": pet.id}, Idempotency_Key="a")
    api("DELETE", f"/store/orders/{first.json()['id']}")
    IdempotencyRecord.objects.update(created_at=django_timezone.now() - timedelta(seconds=age))
    second = api("POST", "/store/orders", {"petId": pet.id}, Idempotency_Key="a")
    assert second.status_code == 201
    assert ("Idempotent-Replayed" in second.headers) is replayed
    assert (second.content == first.content) is replayed


@pytest.mark.parametrize("sent", ["", "a b", "é", "a" * 256])
def test_malformed_idempotency_key_is_refused(api: Api, pet: Pet, sent: str) -> None:
    response = api("POST", "/store/orders", {"petId": pet.id}, Idempotency_Key=sent)
    assert answer(response) == (400, "invalid_parameter")
    assert not Order.objects.exists()
