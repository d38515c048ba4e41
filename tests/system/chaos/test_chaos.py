"""A short chaos run: whatever happens to Redis and PostgreSQL, no answer is wrong."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import migrated_database
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import times
from tests.system.chaos.checks import Asked, Kind, check
from tests.system.chaos.client import LOST, SILENT, Reply
from tests.system.chaos.customers import Shop
from tests.system.chaos.follower import of_feed
from tests.system.chaos.journal import Account, Journal, Order
from tests.system.chaos.records import OrderRow, PetRow, Records, of_records
from tests.system.chaos.report import report
from tests.system.chaos.run import run

# A cycle takes about 12; in each of three others are struck.
SECONDS = times(36, 12)


@NEEDS_POSTGRESQL
def test_no_fault_of_redis_or_postgresql_makes_a_wrong_answer(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    outcome = asyncio.run(run(tmp_path, migrated_database(), seed=seed, seconds=SECONDS))
    assert outcome.violations == [], "\n".join(report(outcome))


# --- The checks are not blind ---------------------------------------------------------------------

ACCOUNT = Account("Roomy", "key", 1_000, 2_000)
ORDER = {"id": 7, "petId": 5, "status": "placed"}
FETCHED = Asked("get order", 200, pet=5, order=7)


def reply(status: int, body: Any = None, **headers: str) -> Reply:
    usual = {"x-request-id": "r-1", "x-ratelimit-limit": "1000", "x-ratelimit-remaining": "1"}
    text = json.dumps(body).encode()
    return Reply("r-1", 100.0, 0.1, status, usual | {"x-ratelimit-reset": "1900000000"} | headers, text)


def error(status: int, code: str) -> Reply:
    return reply(status, {"code": code, "message": "", "status": status})


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        (reply(200, ORDER), []),
        (reply(SILENT), [Kind.HANG]),
        (reply(LOST), [Kind.CUT]),
        (reply(200, ORDER | {"id": 8}), [Kind.FOREIGN]),
        (reply(200, ORDER, **{"x-request-id": "r-2"}), [Kind.FOREIGN]),
        (reply(200, ORDER, **{"x-ratelimit-limit": "1001"}), [Kind.FOREIGN]),
        (error(500, "internal_error"), [Kind.STATUS]),
        (error(404, "order_not_found"), [Kind.STATUS]),
        (error(503, "service_unavailable"), [Kind.INCOMPLETE]),
    ],
)
def test_wrong_answer_is_found(answer: Reply, kinds: list[Kind]) -> None:
    assert [violation.kind for violation in check(FETCHED, answer, Journal(ACCOUNT))] == kinds


def test_records_and_feed_that_contradict_the_answers_are_found() -> None:
    shop = Shop(1, [ACCOUNT], "chaos")
    shop.made = {"chaos 1": (ACCOUNT, 5)}
    shop.journals[0].ordered_pets[5] = 1
    shop.journals[0].orders[7] = Order(7, 5, ACCOUNT)
    pet, order = PetRow(5, "chaos 1", "pending"), OrderRow(7, 5, "placed", "Roomy")
    for pets, orders, kinds in (
        ([pet], [order], []),
        ([], [order], [Kind.LOST]),
        ([pet, pet._replace(id=6, status="available")], [order], [Kind.DOUBLED]),
        ([pet], [order._replace(account="Other")], [Kind.FOREIGN]),
        ([pet._replace(status="available")], [order], [Kind.BROKEN]),
    ):
        assert [one.kind for one in of_records(shop, Records(pets, orders))] == kinds
    made = {"id": 4, "type": "pet.created", "data": {"pet": {"id": 5, "name": "chaos 1"}}}
    placed = {"id": 9, "type": "order.placed", "data": {"order": {"id": 7}}}
    for heard, is_right in (([made, placed], True), ([placed, made], False), ([made], False)):
        assert (list(of_feed(heard, "Roomy", "chaos", Records([pet], [order]))) == []) is is_right
