"""Checks that add and change, for `--write` only. They leave one pet, which the API can't delete."""

import secrets
from typing import Any

from petstore.api.errors import ErrorCode as Code
from petstore.conformance.answers import Answer
from petstore.conformance.checks import check
from petstore.conformance.contract import check_error
from petstore.conformance.refusals import check_details
from petstore.conformance.session import Session

NAME = "Conformance check"
REQUESTS = 12  # What the longest check sends.


def created(session: Session, operation_id: str, path: str, body: Any, key: str) -> Answer:
    """Send a creation with an Idempotency-Key; return its answer, which must be 201."""
    answer = session.call(operation_id, "POST", path, body, headers={"Idempotency-Key": key})
    answer.expect(answer.status == 201, f"answers {answer.status}, not 201: {answer.body[:200]!r}.")
    place = f"{session.url}{path}/{answer.json()['id']}"
    found = answer.header("Location")
    answer.expect(found == place, f"Location is {found!r}, not {place!r}.")
    return answer


def check_replay(again: Answer, first: Answer) -> None:
    """Raise BrokenError unless the second answer is the first one, and says so."""
    again.expect(again.body == first.body, "with the same Idempotency-Key: another answer.")
    marked = again.header("Idempotent-Replayed")
    again.expect(marked == "true", f"Idempotent-Replayed is {marked!r}, not 'true'.")


@check("D3", writes=True)
def wrong_types_are_refused(session: Session) -> None:
    """Values of a wrong type are 400 invalid_field, all of them at once."""
    body = {"name": 7, "categoryId": "1", "status": None}
    check_details(check_error(session.send("POST", "/pets", body), Code.INVALID_FIELD), *body)


@check("D5", writes=True)
def unknown_category_is_refused(session: Session) -> None:
    """A category that is none is 400 unknown_category."""
    answer = session.send("POST", "/pets", {"name": NAME, "categoryId": -1})
    check_error(answer, Code.UNKNOWN_CATEGORY)


@check("D14", writes=True)
def unknown_pet_is_not_ordered(session: Session) -> None:
    """An order of a pet that is none is 404 pet_not_found."""
    check_error(session.send("POST", "/store/orders", {"petId": -1}), Code.PET_NOT_FOUND)


@check("D3, D4, D8, D12, D14, D31", writes=True)
def pet_is_added_ordered_and_free_again(session: Session) -> None:
    """A pet is added once, ordered once, and available again after the order is cancelled."""
    session.spare_quota(REQUESTS)  # Half of it would leave an order behind.
    token = secrets.token_hex(8)
    category = session.first("listCategories", "/categories", "categories")["id"]
    body = {"id": 1, "name": f" {NAME} ", "categoryId": category, "colour": "grey"}
    made = created(session, "createPet", "/pets", body, f"conformance-pet-{token}")
    pet = made.json()
    session.left_behind.append(f"pet {pet['id']} ({NAME}); the API can't delete it")
    wanted = {"id": pet["id"], "name": NAME, "categoryId": category, "status": "available"}
    made.expect(pet == wanted, f"the new pet is {pet}, not {wanted}.")
    check_replay(created(session, "createPet", "/pets", body, f"conformance-pet-{token}"), made)
    headers = {"Idempotency-Key": f"conformance-pet-{token}"}
    other = session.send("POST", "/pets", body | {"name": "Another"}, headers=headers)
    check_error(other, Code.IDEMPOTENCY_KEY_REUSED)
    session.written.append(("pet.created", {"pet": pet}))
    order_once(session, pet, f"conformance-order-{token}")


def order_once(session: Session, pet: dict[str, Any], key: str) -> None:
    """Order the pet, try to order it again, and cancel the order, whatever is found meanwhile."""
    body = {"petId": pet["id"]}
    made = created(session, "placeOrder", "/store/orders", body, key)
    order = made.json()
    path = f"/store/orders/{order['id']}"
    session.left_behind.append(f"order {order['id']}, not cancelled")
    try:
        facts = {name: order[name] for name in ("petId", "quantity", "status", "shipDate", "complete")}
        wanted = {
            "petId": pet["id"],
            "quantity": 1,
            "status": "placed",
            "shipDate": None,
            "complete": False,
        }
        made.expect(facts == wanted, f"the new order is {facts}, not {wanted}.")
        check_replay(created(session, "placeOrder", "/store/orders", body, key), made)
        check_error(session.send("POST", "/store/orders", body), Code.PET_NOT_AVAILABLE)
        found = session.call("getOrder", "GET", path)
        found.expect(found.body == made.body, "the order is another than the one placed.")
    finally:
        gone = session.call("cancelOrder", "DELETE", path)
        if gone.status == 204:
            session.left_behind.pop()
    gone.expect_status(204)
    status = session.call("getOrder", "GET", path).json()["status"]
    gone.expect(status == "cancelled", f"the order is {status} afterwards, not cancelled.")
    again = created(session, "placeOrder", "/store/orders", body, f"{key}-2").json()
    session.left_behind.append(f"order {again['id']}, not cancelled")
    freed = session.call("cancelOrder", "DELETE", f"/store/orders/{again['id']}")
    freed.expect_status(204)
    session.left_behind.pop()
    for one in (order, again):
        for status, held in (("placed", "pending"), ("cancelled", "available")):
            session.written += [
                (f"order.{status}", {"order": one | {"status": status}}),
                ("pet.status_changed", {"pet": pet | {"status": held}}),
            ]
