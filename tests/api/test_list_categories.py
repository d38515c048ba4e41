"""GET /v1/categories: D5, D11."""

from tests.conftest import Api


def test_fresh_database_has_starter_categories_with_ids_from_1(api: Api) -> None:
    listed = api.get("/categories").json()
    assert [category["id"] for category in listed] == list(range(1, 11))
    assert set(listed[0]) == {"id", "name", "description"}
    assert all(category["name"] and category["description"] for category in listed)
