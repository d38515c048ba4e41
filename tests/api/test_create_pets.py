"""POST /v1/pets/batch: several pets, all or none (D58)."""

import json
from typing import Any

import pytest

from accounts.models import OutboxEvent
from inventory.models import Category, Pet
from inventory.serializers import MAX_BATCH
from tests.conftest import Api

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
    events = OutboxEvent.objects.filter(type="pet.created").order_by("id")
    assert [json.loads(event.data)["pet"] for event in events] == pets
    assert response.headers["Location"] == "http://testserver/v1/pets"
    assert api.get("/account").json()["quota"]["day"]["used"] == 1


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
