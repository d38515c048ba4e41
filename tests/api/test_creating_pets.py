"""POST /v1/pets and /v1/pets/batch: the contract's "Add a pet", D2-D5, D8, D58."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from accounts.models import OutboxEvent
from inventory.models import Category, Pet
from inventory.serializers import MAX_BATCH
from tests.conftest import COMMITTED, Api
from tests.support.int64_texts import INVALID_JSON_IDS
from tests.support.responses import get_error

INT64_MAX = 2**63 - 1


def build_pet(category: Category, **members: Any) -> dict[str, Any]:
    return {"name": "Biscuit", "categoryId": category.id} | members


def test_pet_is_added_and_returned(api: Api, category: Category) -> None:
    response = api.post("/pets", build_pet(category, status="pending"))
    pet = Pet.objects.get()
    assert response.status_code == 201
    assert response.json() == build_pet(category, id=pet.id, status="pending")
    assert (pet.name, pet.category, pet.status) == ("Biscuit", category, "pending")
    assert response.headers["Location"] == f"http://testserver/v1/pets/{pet.id}"


def test_name_is_trimmed_and_unchanged(api: Api, category: Category) -> None:
    """json.dumps escapes some as surrogate pairs, which are one character."""
    for name, stored_name in {
        "x": "x", "  Rex ": "Rex", "\u3000Pochi\u00a0": "Pochi", " " + "é" * 255 + " ": "é" * 255,
        "🐕‍🦺": "🐕‍🦺", "<b>&\"'</b>": "<b>&\"'</b>", "a\nb": "a\nb",
    }.items():  # fmt: skip
        response = api.post("/pets", build_pet(category, name=name))
        assert (response.status_code, response.json().get("name")) == (201, stored_name)
        assert Pet.objects.latest("id").name == stored_name


INVALID: dict[str, list[Any]] = {
    "name": ["", "   ", "\t\n", "a" * 256, 5, True, None, [], {}, ["Rex"]],
    "status": [None, "", "lost", "Available", 1, True, [], {}, ["sold"]],
}


@pytest.mark.parametrize("member", INVALID)
def test_invalid_value_is_reported(api: Api, category: Category, member: str) -> None:
    for value in INVALID[member]:
        response = api.post("/pets", build_pet(category, **{member: value}))
        assert get_error(response) == (400, "invalid_field"), value
        assert [detail["field"] for detail in response.json()["details"]] == [member]


def test_json_number_may_be_integral_and_unknown_members_are_ignored(api: Api) -> None:
    for body in (
        b'{"name": "x", "categoryId": 1.0}', b'{"name": "x", "categoryId": 1e0}',
        b'{"name": "x", "categoryId": 10e-1}', b'{"name": "\\u0078", "categoryId": 1.000}',
        b'{"name": "x", "categoryId": 1, "id": 77777, "colour": "red", "created_at": "1999-01-01"}',
    ):  # fmt: skip
        response = api.post("/pets", body)
        pet = {"id": Pet.objects.latest("id").pk, "name": "x", "categoryId": 1, "status": "available"}
        assert (response.status_code, response.json()) == (201, pet)
        assert pet["id"] != 77777


def test_category_id_must_be_an_int64(api: Api) -> None:
    for number in INVALID_JSON_IDS:
        response = api.post("/pets", f'{{"name": "x", "categoryId": {number.format(1)}}}'.encode())
        assert get_error(response) == (400, "invalid_field"), number
        assert response.json()["details"][0]["field"] == "categoryId"


@COMMITTED
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "one"}], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("category_id", [0, INT64_MAX])
def test_category_must_exist(
    api: Api, category: Category, category_id: int, headers: dict[str, str]
) -> None:
    pet, valid = build_pet(category, categoryId=category_id), build_pet(category)
    assert get_error(api.post("/pets", pet, **headers)) == (400, "unknown_category")
    response = api.post("/pets/batch", {"pets": [valid, pet]}, **headers)
    assert get_error(response) == (400, "unknown_category")
    assert [detail["index"] for detail in response.json()["details"]] == [1]
    assert not Pet.objects.exists()


def test_all_problems_are_reported_with_the_basic_code(api: Api) -> None:
    missing = {"name": "missing_field", "categoryId": "missing_field"}
    some = {"name": "missing_field", "categoryId": "unknown_category", "status": "invalid_field"}
    for body, problems in (
        (b'{"categoryId": 999, "status": "lost"}', some),
        (b"{}", missing),
        (b"", missing),
    ):
        response = api.post("/pets", body)
        assert get_error(response) == (400, "missing_field")
        details = response.json()["details"]
        assert {detail["field"]: detail["code"] for detail in details} == problems
        assert all(detail["message"] for detail in details)


MALFORMED = [
    b"not json", b"{", b'{"name": "x",}', b"'", b"\xff\xfe", b'{"name": "\xff"}', b"\xef\xbb\xbf{}",
    b"nul", b'{"name": NaN}', b'{"name": Infinity}', b'{"name": -Infinity}', b'{"a": 1, "a": 2}',
    b'{"x": {"a": 1, "a": 1}}', b'{"name": "\\ud800"}', b'{"\\udfff": 1}', b'{"name": "a\\u0000b"}',
    b'{"x": ["\\u0000"]}', b"[" * 60_000, b'{"a":' * 10_000, b"01", b'{"name": "\x00"}',
    b'{"name": "a\nb"}', b"{} {}", b"[]", b'"x"', b"null", b"[{}]", b"1.5",
]  # fmt: skip


def test_malformed_json_is_rejected(api: Api) -> None:
    for body in MALFORMED:
        assert get_error(api.post("/pets", body)) == (400, "malformed_json"), body[:50]
    assert not Pet.objects.exists()


def test_only_json_in_utf8_is_accepted(api: Api, category: Category) -> None:
    for content_type in (
        "application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "application/xml", "",
        "application/json; charset=latin-1", "application/json; profile=x; charset=latin-1",
        "application/json; charset*=utf-8''latin-1", "application/jsonx", "json", "application/*", "é",
    ):  # fmt: skip
        response = api.post("/pets", build_pet(category), Content_Type=content_type)
        assert get_error(response) == (415, "unsupported_media_type"), content_type
    for content_type in (
        'application/json;charset="UTF-8"', "Application/JSON",
        "application/json; charset=utf-8; profile=x", 'application/json; profile="charset=x"',
    ):  # fmt: skip
        assert api.post("/pets", build_pet(category), Content_Type=content_type).status_code == 201


def test_unknown_member_may_be_an_unrepresentable_number(api: Api) -> None:
    for number in ("1e99999999999999999999", "-1e-99999999999999999999", "1e999999"):
        body = f'{{"name": "Rex", "categoryId": 1, "weight": {number}}}'.encode()
        assert api.post("/pets", body).status_code == 201
        assert api.post("/pets", body, Idempotency_Key=number).status_code == 201
        body = f'{{"name": {number}, "categoryId": 1}}'.encode()
        assert api.post("/pets", body).json()["code"] == "invalid_field"


def test_body_limit_is_64_kib(api: Api, category: Category) -> None:
    body = json.dumps(build_pet(category)).encode()
    largest_body = body + b" " * (64 * 1024 - len(body))
    assert api.post("/pets", largest_body).status_code == 201
    assert get_error(api.post("/pets", largest_body + b" ")) == (413, "payload_too_large")


def test_accept_header_is_ignored(api: Api, category: Category) -> None:
    for accept in ("text/html", "nonsense", "", "application/json;q=0"):
        response = api.post("/pets", build_pet(category), Accept=accept)
        assert (response.status_code, response.headers["Content-Type"]) == (201, "application/json")


@pytest.fixture
def unique_names(transactional_db: None) -> Iterator[None]:
    """Add a database constraint that validation does not check."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX one_pet_of_a_name ON inventory_pet (name)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX one_pet_of_a_name")


@COMMITTED
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "one"}], ids=["alone", "in a transaction"])
def test_integrity_error_is_reported_as_temporary(
    unique_names: None, api: Api, category: Category, headers: dict[str, str]
) -> None:
    assert api.post("/pets", build_pet(category)).status_code == 201
    assert get_error(api.post("/pets", build_pet(category), **headers)) == (503, "service_unavailable")
    assert Pet.objects.count() == 1


# --- Batches (D58) --------------------------------------------------------------------------------

BATCH = "/pets/batch"


def build_batch(category: Category, count: int) -> dict[str, Any]:
    return {"pets": [{"name": f"Pet {number}", "categoryId": category.pk} for number in range(count)]}


def test_pets_are_added_and_returned_in_order(api: Api, category: Category) -> None:
    body = build_batch(category, MAX_BATCH)
    body["pets"][1]["status"] = "sold"
    response = api.post(BATCH, body)
    assert response.status_code == 201
    pets = response.json()
    assert [pet["name"] for pet in pets] == [pet["name"] for pet in body["pets"]]
    assert [pet["status"] for pet in pets[:3]] == ["available", "sold", "available"]
    assert pets == list(Pet.objects.as_json())
    events = OutboxEvent.objects.filter(type="pet.created").order_by("id")
    assert [json.loads(event.data)["pet"] for event in events] == pets
    assert response.headers["Location"] == "http://testserver/v1/pets"
    assert api.get("/account").json()["quota"]["day"]["used"] == 1


def test_all_problems_have_the_index_of_their_pet_and_none_is_added(api: Api, category: Category) -> None:
    good = {"name": "Biscuit", "categoryId": category.pk}
    pets = [good, {"name": " ", "categoryId": 999}, 5, good | {"status": "lost"}, {"name": "Rex"}, None]
    response = api.post(BATCH, {"pets": pets})
    assert response.status_code == 400
    error = response.json()
    assert error["code"] == "missing_field"
    assert [(detail["index"], detail["field"], detail["code"]) for detail in error["details"]] == [
        (1, "name", "invalid_field"),
        (1, "categoryId", "unknown_category"),
        (2, "pets", "invalid_field"),
        (3, "status", "invalid_field"),
        (4, "categoryId", "missing_field"),
        (5, "pets", "invalid_field"),
    ]
    assert not Pet.objects.exists()


def test_body_without_1_to_100_pets_is_rejected(api: Api) -> None:
    assert get_error(api.post(BATCH, [])) == (400, "malformed_json")
    assert get_error(api.post(BATCH, {})) == (400, "missing_field")
    invalid: list[Any] = [[], None, "Rex", {"name": "Rex"}, [{}] * (MAX_BATCH + 1)]
    for pets in invalid:
        response = api.post(BATCH, {"pets": pets})
        assert get_error(response) == (400, "invalid_field")
        (detail,) = response.json()["details"]
        assert (detail["field"], "index" in detail) == ("pets", False)
