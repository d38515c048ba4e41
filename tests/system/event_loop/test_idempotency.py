"""Requests with an Idempotency-Key on the event loop: D31, whatever happens between claim and answer."""

import asyncio
import json
from datetime import datetime
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import RequestFactory
from django.utils import timezone

from accounts.idempotency import RETENTION
from accounts.keys.identity import Caller
from accounts.models import Account, IdempotencyRecord
from inventory.fields import known_category_ids
from inventory.models import Category, Order, Pet
from inventory.views import OrderViewSet, PetViewSet
from petstore.api.context import RequestContext
from petstore.event_loop import opening
from petstore.event_loop.opening import connect
from petstore.event_loop.pg_connection import PostgresqlConnection
from tests.conftest import COMMITTED
from tests.support.concurrency import uncommitted
from tests.support.event_loop import run, run_request, serve, terminate_backend
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import some

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

MANY = 16
CREATED, IN_USE = (201, None), (409, "idempotency_key_in_use")
COME_AGAIN = (503, "service_unavailable")
BATCHES = 12  # At least as many as a request sends to PostgreSQL, with those that prepare.


class Creation(NamedTuple):
    """A request that creates, with an Idempotency-Key."""

    view: Any
    body: dict[str, Any]
    account: Account
    locks: type[Category | Pet]  # What its own write locks.
    key: str = "a"

    def send(self) -> Any:
        """Send it; runs on the loop."""
        request = RequestFactory().post(
            "/v1", self.body, content_type="application/json", headers={"Idempotency-Key": self.key}
        )
        caller = Caller(self.account.pk, 1, "public", frozenset())
        request.context = RequestContext("id", "192.0.2.1", caller=caller)  # type: ignore[attr-defined]
        return self.view(request)

    def record(self, made_at: datetime) -> IdempotencyRecord:
        """Keep a twin's claim."""
        return IdempotencyRecord.objects.create(
            account=self.account, key=self.key, fingerprint="", created_at=made_at
        )

    def count_rows(self) -> tuple[int, int]:
        """Return how many rows there are, and how many records."""
        made = Pet.objects.exclude(name="Free") if self.locks is Category else Order.objects
        return made.count(), IdempotencyRecord.objects.count()


@pytest.fixture(params=["createPet", "placeOrder"])
def creation(request: pytest.FixtureRequest, account: Account, category: Category) -> Creation:
    pet = Pet.objects.create(name="Free", category=category)
    if request.param == "createPet":
        body = {"name": "Biscuit", "categoryId": category.pk}
        return Creation(PetViewSet.as_view({"post": "create"}), body, account, Category)
    return Creation(OrderViewSet.as_view({"post": "create"}), {"petId": pet.pk}, account, Pet)


def told(answers: list[Any]) -> set[tuple[int, str | None]]:
    """Return the statuses of answers, with the codes of Errors."""
    return {(one.status_code, json.loads(one.content).get("code")) for one in answers}


def check_one(creation: Creation, answers: list[Any]) -> None:
    """Check that all are one answer, of which all but one are replays."""
    assert told(answers) == {CREATED}
    assert len({one.content for one in answers}) == 1
    assert sum("Idempotent-Replayed" not in one.headers for one in answers) == 1
    assert creation.count_rows() == (1, 1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins wait hardly at all."""
    monkeypatch.setattr("accounts.idempotency.DUPLICATE_WAIT", 50)


def test_concurrent_duplicate_with_another_body_is_rejected(creation: Creation) -> None:
    other = creation._replace(body=creation.body | {"note": "Another request."})
    assert told(serve(creation.send, other.send)) == {CREATED, (422, "idempotency_key_reused")}
    assert creation.count_rows() == (1, 1)


def test_rejected_request_with_a_key_fails_no_other(account: Account, category: Category) -> None:
    known_category_ids.add(999_999)  # So it is the commit that refuses it.
    body = {"name": 'Ünïcødé 🐕 \\ "', "categoryId": category.pk}
    adding = Creation(PetViewSet.as_view({"post": "create"}), body, account, Category)
    refused = adding._replace(body={"name": "Rex", "categoryId": 999_999}, key="refused")
    others = [adding._replace(key=f"key-{n}") for n in range(MANY)]
    last, *answers = serve(refused.send, *(one.send for one in others))
    assert told([last]) == {(400, "unknown_category")}
    assert told(answers) == {CREATED}
    assert adding.count_rows() == (MANY, MANY)


def test_expired_key_is_renewed_by_one_of_many(creation: Creation) -> None:
    creation.record(timezone.now() - RETENTION)
    check_one(creation, serve(*[creation.send] * MANY))


def test_expired_key_that_is_concurrently_pruned_is_like_new(creation: Creation) -> None:
    creation.record(timezone.now() - RETENTION)
    connection.ensure_connection()
    clearing = connection.connection  # Without Django, which asks nothing on a loop.
    waiting = "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"

    def one_waits() -> None:
        assert len(clearing.execute(waiting).fetchall()) == 1

    async def main() -> Any:
        clearing.execute("BEGIN")
        clearing.execute("DELETE FROM accounts_idempotencyrecord")
        asked = asyncio.create_task(run_request(creation.send))
        await asyncio.to_thread(wait_until, one_waits)
        clearing.execute("COMMIT")
        return await asked

    check_one(creation, [run(main())])


def test_running_request_is_a_conflict_for_duplicates(impatient: None, creation: Creation) -> None:
    with uncommitted(lambda: creation.record(timezone.now())):
        assert told(serve(*[creation.send] * MANY)) == {IN_USE}
    assert creation.count_rows() == (0, 0)
    check_one(creation, serve(creation.send))


def test_request_that_renews_a_key_is_a_conflict_for_duplicates(
    impatient: None, creation: Creation
) -> None:
    creation.record(timezone.now() - RETENTION)
    with uncommitted(IdempotencyRecord.objects.all().delete):
        assert told(serve(*[creation.send] * MANY)) == {IN_USE}
    check_one(creation, serve(creation.send))


def test_lock_of_the_write_itself_is_no_concurrent_duplicate(
    creation: Creation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_in_a_hurry(alias: str) -> BaseDatabaseWrapper:
        wrapper = connect(alias)
        wrapper.connection.execute("SET lock_timeout = 50")
        return wrapper

    monkeypatch.setattr(opening, "connect", connect_in_a_hurry)
    with uncommitted(lambda: list(creation.locks.objects.select_for_update())):
        assert told(serve(creation.send)) == {COME_AGAIN}
    assert creation.count_rows() == (0, 0)
    check_one(creation, serve(creation.send))


def test_category_deleted_after_the_check_is_rejected_and_the_key_stays_unused(
    account: Account, category: Category
) -> None:
    known_category_ids.add(999_999)  # So it is the commit that refuses it.
    view = PetViewSet.as_view({"post": "create"})
    creation = Creation(view, {"name": "Rex", "categoryId": 999_999}, account, Category)
    assert told(serve(creation.send)) == {(400, "unknown_category")}
    assert creation.count_rows() == (0, 0)
    mended = creation._replace(body={"name": "Rex", "categoryId": category.pk})
    check_one(mended, serve(mended.send))


@pytest.mark.parametrize("batch", some(range(1, BATCHES + 1), 4))
def test_retries_create_one_row_whichever_batch_loses_its_connection(
    creation: Creation, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    flush = PostgresqlConnection._flush
    left = iter(range(1, 1000))

    def cut_and_flush(pipe: PostgresqlConnection) -> None:
        if next(left) == batch:
            terminate_backend(pipe._libpq.backend_pid)
        flush(pipe)

    monkeypatch.setattr(PostgresqlConnection, "_flush", cut_and_flush)
    for _ in range(3):
        answers = serve(creation.send)
        assert told(answers) <= {CREATED, COME_AGAIN}
        assert creation.count_rows() == ((1, 1) if told(answers) == {CREATED} else (0, 0))
    assert told(answers) == {CREATED}
