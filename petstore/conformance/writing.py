"""Checks that add and change, for `--write` only. They leave one pet, which the API can't delete."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from petstore.api.errors import ErrorCode as Code
from petstore.conformance.checks import NothingToCheckError, check
from petstore.conformance.client import BrokenError, Response
from petstore.conformance.document import expect_code, expect_members, schemas
from petstore.conformance.session import NotRunError, Session

NAME = "Conformance check"
ORDERS = "/store/orders"
REQUESTS = 14  # What the longest check sends.
# Seconds before each poll: events are in the feed shortly after what they tell of.
PAUSES = (0, 0.3, 0.3, 0.5, 1, 2, 3, 5)
PAGE = 100
SUBJECTS = {"pet": "id", "order": "petId"}  # With the member that has the pet's id.

Row = dict[str, Any]


def idempotency_key() -> dict[str, str]:
    return {"Idempotency-Key": f"conformance-{secrets.token_hex(8)}"}


def expect_created_once(
    session: Session, made: Response, path: str, body: Row, key: dict[str, str]
) -> None:
    """Raise BrokenError unless 201 says where it is, and comes again for the same Idempotency-Key."""
    again = session.send("POST", path, body, headers=key).expect_status(
        201, "with the same Idempotency-Key: "
    )
    again.expect(again.body == made.body, "with the same Idempotency-Key: another answer.")
    marked = again.header("Idempotent-Replayed")
    again.expect(marked == "true", f"Idempotent-Replayed is {marked!r}, not 'true'.")
    place = f"{session.url}{path}/{made.json()['id']}"
    for response in (made, again):
        found = response.header("Location")
        response.expect(found == place, f"Location is {found!r}, not {place!r}.")


@contextmanager
def ordered(session: Session, body: Row, key: dict[str, str]) -> Iterator[Response]:
    """Place an order, and cancel it whatever is found meanwhile."""
    made = session.send("POST", ORDERS, body, headers=key).expect_status(201)
    number = made.json()["id"]
    session.left_behind.append(f"order {number}, not cancelled")
    try:
        yield made
    finally:
        gone = session.send("DELETE", f"{ORDERS}/{number}")
        if gone.status == 204:
            session.left_behind.pop()
    gone.expect_status(204)
    expect_members(gone, session.send("GET", f"{ORDERS}/{number}").json(), {"status": "cancelled"})


@check("D3, D4, D8, D12, D14, D31", writes=True)
def pet_is_added_ordered_and_free_again(session: Session) -> None:
    """A pet is added once, ordered once, and available again after the order is cancelled."""
    session.spare_quota(REQUESTS)  # Half of it would leave an order behind.
    categories, _ = session.rows("/categories?limit=1")
    if not categories:
        raise NothingToCheckError("There are no categories.")
    category, key = categories[0]["id"], idempotency_key()
    body = {"id": 1, "name": f" {NAME} ", "categoryId": category, "colour": "grey"}
    made = session.send("POST", "/pets", body, headers=key).expect_status(201)
    pet = made.json()
    session.left_behind.append(f"pet {pet['id']} ({NAME}); the API can't delete it")
    fields = schemas()["NewPet"]["properties"].items()
    defaults = {name: schema["default"] for name, schema in fields if "default" in schema}
    expect_members(made, pet, defaults | {"name": NAME, "categoryId": category})
    made.expect("colour" not in pet, "the new pet has a member that no pet has.")
    expect_created_once(session, made, "/pets", body, key)
    other = session.send("POST", "/pets", body | {"name": "Another"}, headers=key)
    expect_code(other, Code.IDEMPOTENCY_KEY_REUSED)
    orders = order_twice(session, {"petId": pet["id"]})
    session.written.append({"type": "pet.created", "data": {"pet": pet}})
    for order in orders:
        for status, held in (("placed", "pending"), ("cancelled", "available")):
            session.written += [
                {"type": f"order.{status}", "data": {"order": order | {"status": status}}},
                {"type": "pet.status_changed", "data": {"pet": pet | {"status": held}}},
            ]


def order_twice(session: Session, body: Row) -> list[Row]:
    """Order the pet, try to order it again, cancel the order, and order it once more."""
    key = idempotency_key()
    with ordered(session, body, key) as made:
        wanted = {"quantity": 1, "status": "placed", "shipDate": None, "complete": False}
        expect_members(made, made.json(), body | wanted)
        expect_created_once(session, made, ORDERS, body, key)
        expect_code(session.send("POST", ORDERS, body), Code.PET_NOT_AVAILABLE)
        found = session.send("GET", f"{ORDERS}/{made.json()['id']}")
        found.expect(found.body == made.body, "the order is another than the one placed.")
    with ordered(session, body, idempotency_key()) as again:
        return [made.json(), again.json()]


@check("D40, D41", writes=True)
def feed_tells_once_of_all_that_was_written(session: Session) -> None:
    """The feed tells of the new pet and its orders: each step once, in order, and so a second time."""
    if not (session.feed_end and session.written):
        raise NotRunError("Other checks did not get so far that there is something to follow.")
    session.spare_quota(len(PAUSES) + 3)
    wanted = {subject: steps(session, session.written, subject) for subject in SUBJECTS}
    events: list[Row] = []
    path = session.feed_end
    for pause in PAUSES:
        time.sleep(pause)
        page, path = session.feed(path)
        events += page
        if all(len(steps(session, events, subject)) >= len(wanted[subject]) for subject in SUBJECTS):
            break
    events += session.feed(path)[0]  # What comes a second time may come late.
    ids = [event["id"] for event in events]
    if ids != sorted(set(ids)):
        raise BrokenError(f"GET /events: ids repeat, or don't ascend, over pages: {ids}.")
    for subject, steps_of in wanted.items():
        if (came := steps(session, events, subject)) != steps_of:
            raise BrokenError(f"GET /events: it tells {came}, not {steps_of}.")
    orders = [event for event in events if event["type"].startswith("order.")]
    for query, told in (("", events), ("&type=order", orders)):
        again = session.feed(f"{session.feed_end}{query}")[0]
        if again[: len(told)] != told[:PAGE]:
            raise BrokenError(f"GET /events{query}: other events came, or in another order, a second time.")


def steps(session: Session, events: list[Row], subject: str) -> list[tuple[str, Row]]:
    """Return types and data of the events about the new pet, or about its orders."""
    pet_id = session.written[0]["data"]["pet"]["id"]
    return [
        (event["type"], event["data"])
        for event in events
        if event["data"].get(subject, {}).get(SUBJECTS[subject]) == pet_id
    ]
