"""Retries with an `Idempotency-Key`: D31, for every operation that creates."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from accounts.idempotency import RECORDS
from accounts.models import Account, IdempotencyRecord, PlanCode
from inventory.models import Category, Order, Pet
from tests.conftest import COMMITTED, Api, Issue
from tests.support.concurrency import uncommitted
from tests.support.responses import get_error
from tests.support.skips import NEEDS_POSTGRESQL, READS_PLANS
from tests.support.sql import fetch_value

DAY = timedelta(hours=24)


class Creation(NamedTuple):
    path: str
    body: dict[str, Any]
    other_body: dict[str, Any]
    model: type[Pet | Order]

    def count_rows(self) -> int:
        return self.model.objects.count()


@pytest.fixture(params=["createPet", "createPets", "placeOrder"])
def creation(request: pytest.FixtureRequest, category: Category) -> Creation:
    body = {"name": 'Ünïcødé 🐕‍🦺 \\ "', "categoryId": category.pk, "status": "pending"}
    if request.param == "createPet":
        return Creation("/pets", body, body | {"name": "Rex"}, Pet)
    if request.param == "createPets":
        return Creation("/pets/batch", {"pets": [body] * 2}, {"pets": [body]}, Pet)
    pets = [Pet.objects.create(name="Rex", category=category) for _ in range(2)]
    return Creation("/store/orders", {"petId": pets[0].pk}, {"petId": pets[1].pk}, Order)


@pytest.fixture
def other_account(db: None) -> Account:
    return Account.objects.create(name="Neighbour", plan_id=PlanCode.BUSINESS)


@pytest.fixture
def other_api(issue: Issue, other_account: Account) -> Api:
    return Api(issue(other_account)[1])


def send(api: Api, creation: Creation, body: Any = None) -> Any:
    return api.post(creation.path, creation.body if body is None else body, Idempotency_Key="a")


def add_pet(api: Api, key: str = "a", name: str = "Biscuit") -> Any:
    return api.post("/pets", {"name": name, "categoryId": 1}, Idempotency_Key=key)


def order_pet(api: Api, pet: Pet) -> Any:
    return api.post("/store/orders", {"petId": pet.pk}, Idempotency_Key="a")


def claim(account: Account, **values: Any) -> IdempotencyRecord:
    """Build the record of a request that is still in progress."""
    return IdempotencyRecord(**{"account": account, "idempotency_key": "a", "fingerprint": ""} | values)


def is_replay(response: Any) -> bool:
    return "Idempotent-Replayed" in response.headers


# --- Replays and different requests ------------------------------------------------------------------


def test_same_key_and_body_replay_the_response_byte_for_byte(api: Api, creation: Creation) -> None:
    first = send(api, creation)
    rows = creation.count_rows()
    assert (first.status_code, is_replay(first)) == (201, False)
    for _ in range(2):
        retry = send(api, creation)
        assert (retry.status_code, retry.content) == (201, first.content)
        for name in ("Location", "Content-Type", "Cache-Control"):
            assert retry.headers[name] == first.headers[name]
        assert retry.headers["Idempotent-Replayed"] == "true"
    assert creation.count_rows() == rows
    assert IdempotencyRecord.objects.count() == 1


def test_response_without_a_key_is_never_a_replay(api: Api, category: Category) -> None:
    body = {"name": "Biscuit", "categoryId": category.pk}
    first, second = (api.post("/pets", body) for _ in range(2))
    assert first.json()["id"] != second.json()["id"]
    assert not is_replay(second)
    assert not IdempotencyRecord.objects.exists()


def test_replay_ignores_later_changes_of_the_row(api: Api, pet: Pet) -> None:
    first = order_pet(api, pet)
    assert api("DELETE", f"/store/orders/{first.json()['id']}").status_code == 204
    assert order_pet(api, pet).content == first.content
    assert Order.objects.get().status == "cancelled"


def test_different_body_is_rejected(api: Api, creation: Creation) -> None:
    first = send(api, creation)
    rows = creation.count_rows()
    second = send(api, creation, body=creation.other_body)
    assert get_error(second) == (422, "idempotency_key_reused")
    assert not is_replay(second)
    assert creation.count_rows() == rows
    assert send(api, creation).content == first.content


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (b'{"petId":%d}', b'\n{ "petId" :\t%d }\r\n', True),
        (b'{"petId":%d, "colour": "red"}', b'{"colour":"\\u0072ed", "petId":%d}', True),
        (b'{"petId":%d, "colour": 1.5}', b'{"petId":%d}', False),
        (b'{"petId":%d, "colour": 1.5}', b'{"petId":%d, "colour": "1.5"}', False),
        (b'{"petId":%d, "colour": 1.5}', b'{"petId":%d, "colour": ["1.5"]}', False),
    ],
)
def test_bodies_are_compared_by_their_values_including_ignored_members(
    api: Api, pet: Pet, first: bytes, second: bytes, *, is_same: bool
) -> None:
    created, retry = (
        api.post("/store/orders", body % pet.pk, Idempotency_Key="a") for body in (first, second)
    )
    assert created.status_code == 201
    assert retry.status_code == (201 if is_same else 422)


def test_different_path_is_rejected(api: Api, pet: Pet) -> None:
    body = {"name": "Rex", "categoryId": pet.category_id, "petId": pet.pk}
    assert api.post("/pets", body, Idempotency_Key="a").status_code == 201
    response = api.post("/store/orders", body, Idempotency_Key="a")
    assert get_error(response) == (422, "idempotency_key_reused")
    assert not Order.objects.exists()


# --- Accounts and API keys ---------------------------------------------------------------------------


def test_accounts_and_spellings_of_a_key_are_separate(api: Api, other_api: Api) -> None:
    created = [add_pet(client, key) for client, key in ((api, "a"), (other_api, "a"), (api, "A"))]
    assert len({response.json()["id"] for response in created}) == 3
    assert not any(map(is_replay, created))


def test_api_keys_of_an_account_share_idempotency_keys_within_their_scopes(api: Api, issue: Issue) -> None:
    first, second = add_pet(api), add_pet(Api(issue()[1]))
    assert (second.content, is_replay(second)) == (first.content, True)
    reader = Api(issue(key_scopes=["pets:read", "orders:read"])[1])
    assert get_error(add_pet(reader)) == (403, "insufficient_scope")


def test_replay_costs_one_of_the_quota(api: Api) -> None:
    remaining = [int(add_pet(api).headers["X-RateLimit-Remaining"]) for _ in range(3)]
    assert remaining == [remaining[0], remaining[0] - 1, remaining[0] - 2]


# --- Storage and expiry ------------------------------------------------------------------------------


def test_rejected_body_stores_nothing_and_a_corrected_one_succeeds(api: Api, creation: Creation) -> None:
    for body in (b"{", b"[]", b"null", b"", b'{"name": " ", "petId": "1"}'):
        expected = api.post(creation.path, body)
        assert expected.status_code == 400
        assert send(api, creation, body=body).json() == expected.json()
        assert not IdempotencyRecord.objects.exists()
    assert send(api, creation).status_code == 201


def test_conflict_stores_nothing_and_a_retry_may_succeed(api: Api, other_api: Api, pet: Pet) -> None:
    order_id = other_api.post("/store/orders", {"petId": pet.pk}).json()["id"]
    assert get_error(order_pet(api, pet)) == (409, "pet_not_available")
    assert not IdempotencyRecord.objects.exists()
    assert other_api("DELETE", f"/store/orders/{order_id}").status_code == 204
    retry = order_pet(api, pet)
    assert (retry.status_code, is_replay(retry)) == (201, False)


def test_idempotency_key_expires_after_24_hours(api: Api) -> None:
    first = add_pet(api)
    IdempotencyRecord.objects.update(created_at=timezone.now() - DAY + timedelta(minutes=1))
    assert add_pet(api).content == first.content
    IdempotencyRecord.objects.update(created_at=timezone.now() - DAY)
    other = add_pet(api, name="Rex")
    assert (other.status_code, is_replay(other)) == (201, False)
    assert other.json()["id"] != first.json()["id"]
    assert add_pet(api, name="Rex").content == other.content


def test_command_deletes_expired_records_in_batches_and_reports_their_number(
    account: Account, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petstore.db.batches.BATCH_SIZE", 2)
    for number, age in enumerate([DAY, DAY, DAY, DAY - timedelta(minutes=1), timedelta(0)]):
        created_at = timezone.now() - age
        claim(account, idempotency_key=f"key-{number}", created_at=created_at).save()
    for count in (3, 0):
        call_command("clear_idempotency_keys")
        assert capsys.readouterr().out == f"Done. Deleted {count} responses.\n"
    assert set(IdempotencyRecord.objects.values_list("idempotency_key", flat=True)) == {"key-3", "key-4"}


@COMMITTED
@READS_PLANS
def test_record_is_read_by_index_even_if_planned_on_an_empty_table(db: None) -> None:
    """A prepared statement keeps its plan while the table fills, until PostgreSQL analyzes it again."""
    statement = RECORDS.where(account_id=1, idempotency_key="a")._get_compiled("default").statement
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) accounts_idempotencyrecord")
        cursor.execute("SET enable_seqscan = off")  # Like the event loop.
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        cursor.execute(f"PREPARE read AS {statement.sql.decode()}")
        cursor.execute("EXPLAIN EXECUTE read (1, 'a', 1)")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    connection.close()
    assert "Index Scan using unique_idempotency_key" in plan
    assert re.search(r"Index Cond: .*account_id = .* AND .*key.* = ", plan), plan


# --- The format of keys ------------------------------------------------------------------------------


def test_key_has_1_to_255_visible_ascii_characters(api: Api) -> None:
    for text in ("", "a" * 256, "a b", " a", "a\t", "a\x00", "a\x1f", "a\x7f", "a\n", "é", "\x80", "ÿ"):
        response = add_pet(api, text)
        assert get_error(response) == (400, "invalid_parameter"), ascii(text)
        assert "Idempotency-Key" in response.json()["message"]
    assert not Pet.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    for text in ("a" * 255, "".join(map(chr, range(0x21, 0x7F))), "!", "~", '"quoted"', "%20", "\\"):
        first, second = (add_pet(api, text) for _ in range(2))
        assert (first.status_code, second.content) == (201, first.content), text


def test_key_is_ignored_where_nothing_is_created(api: Api, pet: Pet) -> None:
    order = api.post("/store/orders", {"petId": pet.pk}).json()["id"]
    for path in ("/pets", "/categories", "/store/orders"):
        for text in ("a", "a", "a b"):
            response = api.get(path, Idempotency_Key=text)
            assert (response.status_code, is_replay(response)) == (200, False)
    for _ in range(2):
        assert api("DELETE", f"/store/orders/{order}", Idempotency_Key="a").status_code == 204
    assert not IdempotencyRecord.objects.exists()


# --- Concurrent duplicates, on PostgreSQL: on SQLite they wait for the only write lock ---------------


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.idempotency.DUPLICATE_WAIT", 50)


@contextmanager
def setting(name: str, value: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET {name} = '{value}'")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"RESET {name}")


@COMMITTED
@NEEDS_POSTGRESQL
def test_concurrent_duplicate_is_a_conflict_and_the_retry_succeeds(
    short_wait: None, api: Api, account: Account, creation: Creation
) -> None:
    rows = creation.count_rows()
    with uncommitted(claim(account).save):
        assert get_error(send(api, creation)) == (409, "idempotency_key_in_use")
        assert creation.count_rows() == rows
        assert add_pet(api, "another").status_code == 201
    assert send(api, creation).status_code == 201


@COMMITTED
@NEEDS_POSTGRESQL
def test_concurrent_duplicate_is_a_conflict_for_any_statement_timeout(api: Api, account: Account) -> None:
    api.get("/categories")  # Runs statements that are due once a minute, before the timeout is set.
    with uncommitted(claim(account).save), setting("statement_timeout", "300"):
        assert get_error(add_pet(api)) == (409, "idempotency_key_in_use")


@COMMITTED
@NEEDS_POSTGRESQL
def test_duplicate_of_an_expired_key_is_a_conflict(short_wait: None, api: Api, account: Account) -> None:
    claim(account, created_at=timezone.now() - DAY).save()
    with uncommitted(lambda: IdempotencyRecord.objects.filter(idempotency_key="a").delete()):
        assert get_error(add_pet(api)) == (409, "idempotency_key_in_use")
    assert add_pet(api).status_code == 201


@COMMITTED
@NEEDS_POSTGRESQL
def test_key_of_another_account_does_not_wait(short_wait: None, api: Api, other_account: Account) -> None:
    with uncommitted(claim(other_account).save):
        assert add_pet(api).status_code == 201


@COMMITTED
@NEEDS_POSTGRESQL
def test_lock_timeout_is_short_only_for_a_duplicate(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts = []

    def record_timeout(execute: Any, sql: str, *arguments: Any) -> Any:
        if 'INSERT INTO "inventory_pet"' in sql:
            timeouts.append(fetch_value("SHOW lock_timeout"))
        return execute(sql, *arguments)

    connection.close()
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", "-c lock_timeout=7s")
    with closing(connection), connection.execute_wrapper(record_timeout):
        assert add_pet(api).status_code == 201
    assert timeouts == ["7s"]
