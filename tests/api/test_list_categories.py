"""GET /v1/categories: D5, D11."""

from inventory.models import Category
from tests.conftest import Api


def test_fresh_database_has_starter_categories_with_ids_from_1(api: Api) -> None:
    listed = api.get("/categories").json()
    assert [category["id"] for category in listed] == list(range(1, 11))
    assert set(listed[0]) == {"id", "name", "description"}
    assert all(category["name"] and category["description"] for category in listed)


def test_categories_are_paginated(api: Api) -> None:
    first = api.get("/categories?limit=9")
    assert len(first.json()) == 9
    url = first.headers["Link"].partition(">")[0].removeprefix("<http://testserver/v1")
    second = api.get(url)
    assert [category["id"] for category in second.json()] == [10]
    assert "Link" not in second.headers


def test_categories_added_by_staff_are_listed(api: Api) -> None:
    Category.objects.create(name="Dragons", description="Tame ones.")
    assert api.get("/categories").json()[-1]["name"] == "Dragons"
