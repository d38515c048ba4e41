"""POST /v1/pets/batch: several pets, all or none (D58)."""

import json
from typing import Any

import pytest

from accounts.models import EventDraft
from inventory.fields import MAX_BATCH
from inventory.models import Category, Pet
from tests.conftest import Api
from tests.support.costs import recorded_statements

PATH = "/pets/batch"


def build_batch(category: Category, count: int) -> dict[str, Any]:
    return {"pets": [{"name": f"Pet {number}", "categoryId": category.pk} for number in range(count)]}


def test_pets_are_added_and_returned_in_order(api: Api, category: Category) -> None:
    body = build_batch(category, MAX_BATCH)
    body["pets"][1]["status"] = "sold"
    response = api.post(PATH, body)
    assert response.status_code == 201
    pets = response.json()
    assert [pet["name"] for pet in pets] == [pet["name"] for pet in body["pets"]]
    assert [pet["status"] for pet in pets[:3]] == ["available", "sold", "available"]
    assert pets == list(Pet.objects.as_json())
    assert response.headers["Location"] == "http://testserver/v1/pets"
    assert api.get("/account").json()["quota"]["day"]["used"] == 1


def test_each_pet_has_an_event(api: Api, category: Category) -> None:
    pets = api.post(PATH, build_batch(category, 3)).json()
    drafts = EventDraft.objects.filter(type="pet.created").order_by("id")
    assert [json.loads(draft.data)["pet"] for draft in drafts] == pets


def test_batch_needs_one_statement_more_than_a_single_pet(api: Api, category: Category) -> None:
    def count(path: str, body: Any) -> int:
        with recorded_statements() as statements:
            assert api.post(path, body).status_code == 201
        return len([sql for sql, _ in statements if "SAVEPOINT" not in sql])

    single = build_batch(category, 1)["pets"][0]
    count("/pets", single)  # Fills caches.
    assert count(PATH, build_batch(category, MAX_BATCH)) <= count("/pets", single) + 2
    assert count(PATH, build_batch(category, MAX_BATCH)) == count(PATH, build_batch(category, 2))


def test_all_problems_have_the_index_of_their_pet_and_nothing_is_added(
    api: Api, category: Category
) -> None:
    good = {"name": "Biscuit", "categoryId": category.pk}
    pets = [good, {"name": " ", "categoryId": 999}, 5, good | {"status": "lost"}, {"name": "Rex"}, None]
    response = api.post(PATH, {"pets": pets})
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


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_field"),
        ({"pets": []}, "invalid_field"),
        ({"pets": None}, "invalid_field"),
        ({"pets": "Rex"}, "invalid_field"),
        ({"pets": {"name": "Rex"}}, "invalid_field"),
        ({"pets": [{}] * (MAX_BATCH + 1)}, "invalid_field"),
        ([], "malformed_json"),
    ],
)
def test_body_without_1_to_100_pets_is_rejected(api: Api, body: Any, code: str) -> None:
    response = api.post(PATH, body)
    assert (response.status_code, response.json()["code"]) == (400, code)
    details = response.json().get("details", [{"field": "pets"}])
    assert [detail["field"] for detail in details] == ["pets"]
    assert "index" not in details[0]


def test_repeated_key_replays_the_batch(api: Api, category: Category) -> None:
    body = build_batch(category, 3)
    first, again = (api.post(PATH, body, Idempotency_Key="batch") for _ in range(2))
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert Pet.objects.count() == 3


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_only_post_is_allowed(api: Api, method: str) -> None:
    response = api(method, PATH)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
