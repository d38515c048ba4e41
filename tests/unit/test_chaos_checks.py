"""The checks of the chaos test: each finds what is made up for it, and nothing in a right answer."""

import json
from typing import Any

import pytest

from tests.system.chaos.checks import Asked, Kind, charge, check, of_limits
from tests.system.chaos.client import LOST, SILENT, Reply
from tests.system.chaos.customers import Shop
from tests.system.chaos.faults import BACKENDS, FAULTY_SECONDS, STRUCK, Choice, plan
from tests.system.chaos.faults import Kind as Fault
from tests.system.chaos.follower import of_feed
from tests.system.chaos.journal import Account, Journal, Order, OrderState
from tests.system.chaos.records import OrderRow, PetRow, Records, of_records

ROOMY = Account("Roomy", "key", 1_000, 2_000)
SMALL = Account("Small", "key", 3, 5_000, "minute")
DAILY = Account("Daily", "key", 6_000, 3, "day")
PET = {"id": 5, "name": "chaos 1", "categoryId": 1, "status": "available"}
ORDER = {"id": 7, "petId": 5, "quantity": 1, "status": "placed", "shipDate": None, "complete": False}
LISTED = Asked("list pets", 200, limit=1, filtered="available", full=True)
CREATED = Asked("create pet", 201, name="chaos 1")
PLACED = Asked("place order", 201, pet=5)
FETCHED = Asked("get order", 200, pet=5, order=7)
CANCELLED = Asked("cancel order", 204, pet=5, order=7)
ORDERS = Asked("list orders", 200)
LOOKED = Asked("get account", 200)
SHOWN = {
    "account": {"name": "Roomy"},
    "quota": {"minute": {"limit": 1_000}, "day": {"limit": 2_000}},
    "ban": None,
}


def reply(status: int, body: Any = None, **headers: str | None) -> Reply:
    usual = {
        "x-request-id": "r-1", "x-ratelimit-limit": "1000",
        "x-ratelimit-remaining": "1", "x-ratelimit-reset": "1900000000",
    }  # fmt: skip
    given = usual | {name.replace("_", "-"): value for name, value in headers.items()}
    text = b"" if body is None else json.dumps(body).encode()
    return Reply("r-1", 100.0, 0.1, status, {k: v for k, v in given.items() if v is not None}, text)


def error(status: int, code: str, **headers: str | None) -> Reply:
    return reply(status, {"code": code, "message": "", "status": status}, **headers)


def journal(account: Account = ROOMY) -> Journal:
    made = Journal(account)
    made.ordered_pets[5] = 1
    made.orders[7] = Order(7, 5, account)
    return made


def found(asked: Asked, answer: Reply, account: Account = ROOMY) -> list[Kind]:
    return [violation.kind for violation in check(asked, answer, journal(account))]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (LISTED, reply(200, [PET])),
        (CREATED, reply(201, PET)),
        (PLACED, reply(201, ORDER)),
        (FETCHED, reply(200, ORDER)),
        (ORDERS, reply(200, [ORDER])),
        (CANCELLED, reply(204)),
        (LOOKED, reply(200, SHOWN)),
        (ORDERS, error(503, "service_unavailable", retry_after="2")),
        (PLACED._replace(explained=frozenset({"pet_not_available"})), error(409, "pet_not_available")),
    ],
)
def test_right_answers_violate_nothing(asked: Asked, answer: Reply) -> None:
    assert found(asked, answer) == []


@pytest.mark.parametrize(
    ("asked", "answer", "kind"),
    [
        (LISTED, reply(SILENT), Kind.HANG),
        (LISTED, reply(200, [PET])._replace(took=10.1), Kind.HANG),
        (LISTED, reply(LOST), Kind.CUT),
        (LISTED, reply(200, [PET], x_request_id="r-2"), Kind.FOREIGN),
        (LISTED, reply(200, [PET], x_ratelimit_limit="1001"), Kind.FOREIGN),
        (LISTED, reply(200, [ORDER]), Kind.FOREIGN),
        (LISTED, reply(200, [PET, PET]), Kind.FOREIGN),
        (LISTED, reply(200, [PET | {"status": "sold"}]), Kind.FOREIGN),
        (CREATED, reply(201, PET | {"name": "chaos 2"}), Kind.FOREIGN),
        (PLACED, reply(201, ORDER | {"petId": 6}), Kind.FOREIGN),
        (FETCHED, reply(200, ORDER | {"id": 8}), Kind.FOREIGN),
        (FETCHED._replace(filtered="cancelled"), reply(200, ORDER), Kind.LOST),
        (ORDERS, reply(200, [ORDER, ORDER | {"id": 8, "petId": 6}]), Kind.FOREIGN),
        (ORDERS, reply(200, PET), Kind.FOREIGN),
        (CANCELLED, reply(204, {}), Kind.WRONG),
        (LOOKED, reply(200, SHOWN | {"account": {"name": "Small"}}), Kind.FOREIGN),
        (LOOKED, reply(200, []), Kind.FOREIGN),
        (LOOKED, reply(200, SHOWN | {"ban": {"until": "2026-11-23T00:00:00Z"}}), Kind.WRONG),
        (LOOKED, error(429, "daily_quota_exceeded", retry_after="1"), Kind.STATUS),
        (LOOKED, error(429, "api_key_banned", retry_after="1", x_ratelimit_limit="60"), Kind.STATUS),
        (LISTED, error(500, "internal_error"), Kind.STATUS),
        (LISTED, error(401, "invalid_api_key"), Kind.STATUS),
        (PLACED, error(409, "pet_not_available"), Kind.STATUS),
        (FETCHED, error(404, "order_not_found"), Kind.STATUS),
        (LISTED, error(429, "rate_limit_exceeded", retry_after="1"), Kind.STATUS),
        (LISTED, error(503, "service_unavailable"), Kind.INCOMPLETE),
        (LISTED, reply(503, None, retry_after="2"), Kind.INCOMPLETE),
        (LISTED, reply(200, [PET], x_ratelimit_reset=None), Kind.INCOMPLETE),
        (LISTED, reply(200, [PET], x_request_id=None), Kind.INCOMPLETE),
    ],
)
def test_wrong_answer_is_found(asked: Asked, answer: Reply, kind: Kind) -> None:
    assert found(asked, answer) == [kind]


def test_account_is_refused_only_when_it_has_used_its_limit() -> None:
    small = journal(SMALL)
    refused = error(429, "rate_limit_exceeded", retry_after="9", x_ratelimit_limit="3")
    small.sent.append(90.0)
    assert [one.kind for one in check(LISTED, refused, small)] == [Kind.REFUSED]
    small.sent.append(91.0)
    assert list(check(LISTED, refused, small)) == []
    of_its_address = error(429, "rate_limit_exceeded", retry_after="9", x_ratelimit_limit="300")
    assert [one.kind for one in check(LISTED, of_its_address, small)] == [Kind.STATUS]


def test_a_look_is_refused_only_after_60_of_them() -> None:
    small = journal(SMALL)
    refused = error(429, "rate_limit_exceeded", retry_after="9", x_ratelimit_limit="60")
    small.looked.extend([90.0] * 29)
    assert [one.kind for one in check(LOOKED, refused, small)] == [Kind.REFUSED]
    small.looked.append(91.0)
    assert list(check(LOOKED, refused, small)) == []


def charged(account: Account, limit: int, resets: list[int]) -> Journal:
    made = Journal(account)
    for reset in resets:
        numbers = {"x_ratelimit_limit": str(limit), "x_ratelimit_reset": str(reset)}
        charge(reply(200, [], **numbers), made)
        charge(error(503, "service_unavailable", **numbers), made)  # Nobody knows whether it counted.
    return made


@pytest.mark.parametrize(
    ("resets", "changed", "exceeded"),
    [
        ([60, 60, 60, 120, 120, 120], False, False),
        ([60, 60, 60, 60], False, True),
        ([60, 60, 60, 119], False, True),
        ([60, 60, 60, 119, 119, 119], True, False),
        ([60, 60, 60, 119, 119, 119, 119], True, True),
    ],
)
def test_minute_is_admitted_once_and_once_more_by_the_other_store(
    resets: list[int], changed: bool, exceeded: bool
) -> None:
    violations = of_limits(charged(SMALL, 3, resets), changed=changed)
    assert any(one.kind is Kind.LIMIT for one in violations) is exceeded


@pytest.mark.parametrize(("requests", "exceeded"), [(5, False), (6, True)])  # 2 in flight.
def test_day_is_admitted_once_whoever_counts(requests: int, exceeded: bool) -> None:
    violations = of_limits(charged(DAILY, 3, [86_400] * requests), changed=True)
    assert any(one.kind is Kind.LIMIT for one in violations) is exceeded


def shop() -> Shop:
    made = Shop(1, [ROOMY], "chaos")
    made.made = {"chaos 1": (ROOMY, 5), "chaos 2": (ROOMY, 0)}
    made.journals = [journal()]
    return made


PETS = [PetRow(5, "chaos 1", "pending")]
PLACED_ROW = OrderRow(7, 5, "placed", "Roomy")


@pytest.mark.parametrize(
    ("pets", "orders", "kinds"),
    [
        (PETS, [PLACED_ROW], []),
        ([*PETS, PetRow(6, "chaos 2", "available")], [PLACED_ROW], []),
        ([], [PLACED_ROW], [Kind.LOST]),
        ([*PETS, PetRow(6, "chaos 1", "available")], [PLACED_ROW], [Kind.DOUBLED]),
        ([PetRow(5, "chaos 1", "available")], [], [Kind.LOST]),
        (PETS, [PLACED_ROW._replace(account="Other")], [Kind.FOREIGN]),
        ([PetRow(5, "chaos 1", "available")], [PLACED_ROW], [Kind.BROKEN]),
        (PETS, [PLACED_ROW, PLACED_ROW._replace(id=8)], [Kind.DOUBLED, Kind.DOUBLED]),
        (PETS, [PLACED_ROW, OrderRow(8, 5, "cancelled", "Roomy")], [Kind.DOUBLED]),
    ],
)
def test_rows_are_compared_with_what_was_acknowledged(
    pets: list[PetRow], orders: list[OrderRow], kinds: list[Kind]
) -> None:
    assert [violation.kind for violation in of_records(shop(), Records(pets, orders))] == kinds


def test_cancelled_order_stays_cancelled() -> None:
    told = shop()
    told.journals[0].orders[7].state = OrderState.CANCELLED
    violations = list(of_records(told, Records(PETS, [PLACED_ROW])))
    assert [violation.kind for violation in violations] == [Kind.LOST]


MADE = {"id": 4, "type": "pet.created", "data": {"pet": {"id": 5, "name": "chaos 1"}}}
TOLD = {"id": 9, "type": "order.placed", "data": {"order": {"id": 7}}}
OTHERS = {"id": 6, "type": "pet.created", "data": {"pet": {"id": 2, "name": "Stays 1"}}}


@pytest.mark.parametrize(
    ("heard", "right"),
    [
        ([MADE, TOLD], True),
        ([MADE, OTHERS, TOLD], True),
        ([TOLD], False),
        ([MADE], False),
        ([MADE, TOLD, TOLD], False),
        ([MADE, TOLD, TOLD | {"id": 10}], False),
        ([TOLD, MADE], False),
        ([MADE, TOLD, {"id": 10, "type": "order.placed", "data": {"order": {"id": 8}}}], False),
        ([MADE, TOLD, {"id": 10, "type": "order.cancelled", "data": {"order": {"id": 7}}}], False),
    ],
)
def test_feed_is_compared_with_what_was_written(heard: list[dict[str, Any]], *, right: bool) -> None:
    violations = list(of_feed(heard, "Roomy", "chaos", Records(PETS, [PLACED_ROW])))
    assert {violation.kind for violation in violations} == (set() if right else {Kind.FEED})


def test_seed_repeats_the_faults_and_each_kind_comes() -> None:
    cycles = [plan(1, cycle, Choice()) for cycle in range(40)]
    assert cycles == [plan(1, cycle, Choice()) for cycle in range(40)]
    assert cycles != [plan(2, cycle, Choice()) for cycle in range(40)]
    rows = [row for cycle in cycles for row in cycle]
    assert {(fault.backend, fault.kind) for row in rows for fault in row} == {
        (backend, kind)
        for backend in BACKENDS
        for kind in Fault
        if backend == "redis" or kind is not Fault.FAILOVER
    }
    assert {tuple(row[0].backend for row in cycle) for cycle in cycles[: len(STRUCK)]} == set(STRUCK)
    assert all(sum(fault.seconds + fault.pause for fault in row) > FAULTY_SECONDS - 1 for row in rows)
