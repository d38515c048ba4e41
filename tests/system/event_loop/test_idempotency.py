"""Requests with an Idempotency-Key on the event loop satisfy D31 in spite of failures."""

import asyncio
import json
from datetime import datetime
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.test import RequestFactory
from django.utils import timezone

from accounts.idempotency import RETENTION
from accounts.models import Account, IdempotencyRecord
from inventory.models import Category, Order, Pet
from inventory.views import OrderViewSet, PetViewSet
from petstore.api.context import Caller, RequestContext
from petstore.db.event_loop import connector
from petstore.db.event_loop.connection import PostgresqlConnection
from tests.conftest import COMMITTED
from tests.support.concurrency import uncommitted
from tests.support.event_loop import run, run_request, serve, terminate_backend
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import some

pytestmark = [COMMITTED, NEEDS_POSTGRESQL]

CONCURRENT_REQUESTS = 16
CREATED, IN_USE = (201, None), (409, "idempotency_key_in_use")
UNAVAILABLE, UNKNOWN_CATEGORY = (503, "service_unavailable"), (400, "unknown_category")
BATCHES = 12  # At least the number that a request sends to PostgreSQL, including preparations.


def create_view(viewset: Any) -> Any:
    """Return the view that creates a row, without the checks of key, quota and scope."""
    return viewset.as_view(
        {"post": "create"}, authentication_classes=(), throttle_classes=(), permission_classes=()
    )


class Creation(NamedTuple):
    """A request with an Idempotency-Key that creates a row."""

    view: Any
    body: dict[str, Any]
    account: Account
    locks: type[Category | Pet]  # The model whose row the write locks.
    key: str = "a"

    def send(self) -> Any:
        """Send the request. Call it on the loop."""
        request = RequestFactory().post(
            "/v1", self.body, content_type="application/json", headers={"Idempotency-Key": self.key}
        )
        caller = Caller(self.account.pk, 1, "public", frozenset())
        request.context = RequestContext("id", "192.0.2.1", caller=caller)  # type: ignore[attr-defined]
        return self.view(request)

    def create_claim(self, created_at: datetime) -> IdempotencyRecord:
        """Create the claim of a duplicate."""
        return IdempotencyRecord.objects.create(
            account=self.account, idempotency_key=self.key, fingerprint="", created_at=created_at
        )

    def count_rows(self) -> tuple[int, int]:
        """Return the numbers of created rows and of idempotency records."""
        created = Pet.objects.exclude(name="Free") if self.locks is Category else Order.objects
        return created.count(), IdempotencyRecord.objects.count()


@pytest.fixture(params=["createPet", "placeOrder"])
def creation(request: pytest.FixtureRequest, account: Account, category: Category) -> Creation:
    pet = Pet.objects.create(name="Free", category=category)
    if request.param == "createPet":
        body = {"name": "Biscuit", "categoryId": category.pk}
        return Creation(create_view(PetViewSet), body, account, Category)
    return Creation(create_view(OrderViewSet), {"petId": pet.pk}, account, Pet)


def get_outcomes(responses: list[Any]) -> set[tuple[int, str | None]]:
    """Return the statuses of responses, with the codes of Errors."""
    return {(response.status_code, json.loads(response.content).get("code")) for response in responses}


def check_created_once(creation: Creation, responses: list[Any]) -> None:
    """Check that all responses are equal, and that all but one are replays."""
    assert get_outcomes(responses) == {CREATED}
    assert len({response.content for response in responses}) == 1
    assert sum("Idempotent-Replayed" not in response.headers for response in responses) == 1
    assert creation.count_rows() == (1, 1)


@pytest.fixture
def short_duplicate_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let duplicates wait only briefly."""
    monkeypatch.setattr("accounts.idempotency.DUPLICATE_WAIT", 50)


def test_concurrent_duplicate_with_another_body_is_rejected(creation: Creation) -> None:
    other = creation._replace(body=creation.body | {"note": "Another request."})
    assert get_outcomes(serve(creation.send, other.send)) == {CREATED, (422, "idempotency_key_reused")}
    assert creation.count_rows() == (1, 1)


def test_rejected_request_with_a_key_fails_no_other(account: Account, category: Category) -> None:
    body = {"name": 'Ünïcødé 🐕 \\ "', "categoryId": category.pk}
    adding = Creation(create_view(PetViewSet), body, account, Category)
    rejected = adding._replace(body={"name": "Rex", "categoryId": 999_999}, key="rejected")
    others = [adding._replace(key=f"key-{n}") for n in range(CONCURRENT_REQUESTS)]
    rejection, *responses = serve(rejected.send, *(other.send for other in others))
    assert get_outcomes([rejection]) == {UNKNOWN_CATEGORY}
    assert get_outcomes(responses) == {CREATED}
    assert adding.count_rows() == (CONCURRENT_REQUESTS, CONCURRENT_REQUESTS)


def test_expired_key_is_renewed_by_one_of_many(creation: Creation) -> None:
    creation.create_claim(timezone.now() - RETENTION)
    check_created_once(creation, serve(*[creation.send] * CONCURRENT_REQUESTS))


def test_expired_key_that_is_concurrently_pruned_is_like_new(creation: Creation) -> None:
    creation.create_claim(timezone.now() - RETENTION)
    connection.ensure_connection()
    pruning = connection.connection  # Bypasses Django, which rejects queries on a loop.
    waiting = "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"

    def check_request_waits() -> None:
        assert len(pruning.execute(waiting).fetchall()) == 1

    async def main() -> Any:
        pruning.execute("BEGIN")
        pruning.execute("DELETE FROM accounts_idempotencyrecord")
        request = asyncio.create_task(run_request(creation.send))
        try:
            await asyncio.to_thread(wait_until, check_request_waits)
        finally:
            pruning.execute("COMMIT")
        return await request

    check_created_once(creation, [run(main())])


def test_running_request_is_a_conflict_for_duplicates(
    short_duplicate_wait: None, creation: Creation
) -> None:
    with uncommitted(lambda: creation.create_claim(timezone.now())):
        assert get_outcomes(serve(*[creation.send] * CONCURRENT_REQUESTS)) == {IN_USE}
    assert creation.count_rows() == (0, 0)
    check_created_once(creation, serve(creation.send))


def test_request_that_renews_a_key_is_a_conflict_for_duplicates(
    short_duplicate_wait: None, creation: Creation
) -> None:
    creation.create_claim(timezone.now() - RETENTION)
    with uncommitted(IdempotencyRecord.objects.all().delete):
        assert get_outcomes(serve(*[creation.send] * CONCURRENT_REQUESTS)) == {IN_USE}
    check_created_once(creation, serve(creation.send))


def test_lock_of_the_write_itself_is_not_a_concurrent_duplicate(
    creation: Creation, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = f"{connector.PLANNER_OPTIONS} -c lock_timeout=50"
    monkeypatch.setattr(connector, "PLANNER_OPTIONS", options)
    with uncommitted(lambda: list(creation.locks.objects.select_for_update())):
        assert get_outcomes(serve(creation.send)) == {UNAVAILABLE}
    assert creation.count_rows() == (0, 0)
    check_created_once(creation, serve(creation.send))


def test_key_of_a_pet_with_an_unknown_category_stays_unused(account: Account, category: Category) -> None:
    creation = Creation(create_view(PetViewSet), {"name": "Rex", "categoryId": 999_999}, account, Category)
    assert get_outcomes(serve(creation.send)) == {UNKNOWN_CATEGORY}
    assert creation.count_rows() == (0, 0)
    corrected = creation._replace(body={"name": "Rex", "categoryId": category.pk})
    check_created_once(corrected, serve(corrected.send))


@pytest.mark.parametrize("batch", some(range(1, BATCHES + 1), 4))
def test_retries_create_one_row_whichever_batch_loses_its_connection(
    creation: Creation, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    flush = PostgresqlConnection._flush
    batches = iter(range(1, 1000))

    def terminate_and_flush(self: PostgresqlConnection) -> None:
        if next(batches) == batch:
            terminate_backend(self._libpq.backend_pid)
        flush(self)

    monkeypatch.setattr(PostgresqlConnection, "_flush", terminate_and_flush)
    for _ in range(3):
        responses = serve(creation.send)
        assert get_outcomes(responses) <= {CREATED, UNAVAILABLE}
        assert creation.count_rows() == ((1, 1) if get_outcomes(responses) == {CREATED} else (0, 0))
    assert get_outcomes(responses) == {CREATED}
