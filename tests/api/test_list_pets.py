"""GET /v1/pets: the contract's "List pets", D6, D9, D10, D44."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from inventory.models import Category, Pet, PetStatus
from tests.conftest import Api
from tests.support.responses import follow_pages, get_error, get_next_path


@pytest.fixture
def pets(category: Category) -> list[Pet]:
    """Fifty pets: 30 available, 10 pending, 10 sold."""
    statuses = [PetStatus.AVAILABLE] * 3 + [PetStatus.PENDING, PetStatus.SOLD]
    return Pet.objects.bulk_create(
        Pet(name=f"Pet {number}", category=category, status=statuses[number % 5]) for number in range(50)
    )


def test_empty_shop_has_an_empty_list(api: Api) -> None:
    response = api.get("/pets")
    assert (response.status_code, response.json(), get_next_path(response)) == (200, [], None)


@pytest.mark.parametrize("limit", [1, 49, 50, 100])
def test_limit_is_applied_and_the_last_page_has_no_next_link(api: Api, pets: list[Pet], limit: int) -> None:
    response = api.get(f"/pets?limit={limit}")
    assert response.json() == [pet.as_json() for pet in pets[:limit]]
    assert (get_next_path(response) is None) is (limit >= 50)


def test_limit_defaults_to_20_and_unknown_parameters_are_ignored(api: Api, pets: list[Pet]) -> None:
    for query in ("", "?colour=red&format=xml&page=2"):
        assert api.get(f"/pets{query}").json() == [pet.as_json() for pet in pets[:20]]


INVALID = {
    "limit": ["0", "101", "-1", "", "1.0", "1e1", "ten", "+5", "%D9%A5", "9" * 5000, "%00", "5&limit=5"],
    "status": ["", "lost", "SOLD", "sold ", "%00", "%ff", "sold,pending", "sold&status=sold"],
    "categoryId": ["", "dogs", "1.0", "01", "+1", "-0", "1,2", "%00", "%ff", "%D9%A1", str(2**63),
                   "9" * 5000, "1&categoryId=1"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in INVALID.items() for value in values]
)
def test_invalid_value_is_an_invalid_parameter(api: Api, name: str, value: str) -> None:
    response = api.get(f"/pets?{name}={value}")
    assert get_error(response) == (400, "invalid_parameter")
    assert f"`{name}`" in response.json()["message"]


@pytest.mark.parametrize("status", PetStatus.values)
def test_status_filters(api: Api, pets: list[Pet], status: str) -> None:
    expected = [pet.id for pet in pets if pet.status == status]
    assert [pet["id"] for pet in api.get(f"/pets?limit=100&status={status}").json()] == expected


@pytest.fixture
def cat(pets: list[Pet]) -> Pet:
    """The only pet of another category."""
    return Pet.objects.create(name="Cat", category=Category.objects.latest("id"), status=PetStatus.SOLD)


def test_category_filter_combines_with_status(api: Api, pets: list[Pet], cat: Pet) -> None:
    assert api.get(f"/pets?categoryId={cat.category_id}").json() == [cat.as_json()]
    assert api.get(f"/pets?categoryId={cat.category_id}&status=sold").json() == [cat.as_json()]
    assert api.get(f"/pets?categoryId={cat.category_id}&status=pending").json() == []
    sold = [pet.as_json() for pet in pets if pet.status == PetStatus.SOLD]
    assert api.get(f"/pets?status=sold&categoryId={pets[0].category_id}").json() == sold


@pytest.mark.parametrize("category_id", [999_999, 0, -1, 2**63 - 1, -(2**63)])
def test_unknown_category_has_an_empty_list(api: Api, pets: list[Pet], category_id: int) -> None:
    response = api.get(f"/pets?categoryId={category_id}")
    assert (response.status_code, response.json(), get_next_path(response)) == (200, [], None)


def test_category_filter_applies_to_pets_only(api: Api, category: Category) -> None:
    for path in ("/categories", "/store/orders"):
        assert api.get(f"{path}?categoryId=dogs").json() == api.get(path).json()


def test_next_link_repeats_only_filters_and_limit(api: Api, pets: list[Pet], cat: Pet) -> None:
    filters = {"limit": "4", "status": "available", "categoryId": str(pets[0].category_id)}
    path = f"/pets?colour=red&{urlencode(filters)}"
    next_path = get_next_path(api.get(path))
    assert next_path is not None
    assert next_path.startswith("/pets?")
    query = dict(parse_qsl(urlsplit(next_path).query))
    assert query == filters | {"cursor": query["cursor"]}
    assert [len(page) for page in follow_pages(api, path)] == [4] * 7 + [2]


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_pages_have_every_pet_once_by_ascending_id(api: Api, pets: list[Pet], limit: int) -> None:
    ids = [pet["id"] for page in follow_pages(api, f"/pets?limit={limit}") for pet in page]
    assert ids == [pet.id for pet in pets]


def test_concurrent_inserts_and_deletes_neither_repeat_nor_hide_rows(
    api: Api, pets: list[Pet], category: Category
) -> None:
    pages = follow_pages(api, "/pets?limit=10")
    ids = [pet["id"] for pet in next(pages)]
    pets[3].delete()
    Pet.objects.create(name="Late", category=category)
    ids += [pet["id"] for page in pages for pet in page]
    assert ids == [pet.id or ids[3] for pet in pets] + [Pet.objects.latest("id").id]


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c[:-1],
        lambda c: "2" + c,
        lambda c: c.upper(),
        lambda c: "",
        lambda c: "%00",
        lambda c: "a" * 5000,
        lambda c: c.split(".")[1],
        lambda c: "%ff",
        lambda c: "é",
    ],
)
def test_tampered_cursor_is_an_invalid_parameter(api: Api, pets: list[Pet], change: Any) -> None:
    next_path = get_next_path(api.get("/pets"))
    assert next_path is not None
    cursor = dict(parse_qsl(urlsplit(next_path).query))["cursor"]
    assert api.get(f"/pets?cursor={change(cursor)}").json()["code"] == "invalid_parameter"


def test_cursor_of_another_list_is_an_invalid_parameter(api: Api, pets: list[Pet]) -> None:
    next_path = get_next_path(api.get("/categories?limit=1"))
    assert next_path is not None
    response = api.get(next_path.replace("/categories", "/pets"))
    assert response.json()["code"] == "invalid_parameter"


def test_list_uses_two_queries_including_quota(
    api: Api, pets: list[Pet], django_assert_num_queries: Any
) -> None:
    api.get("/pets?limit=20")  # Creates the row of the account's usage.
    with django_assert_num_queries(2) as queries:
        api.get("/pets?limit=20")
    quota, page = (query["sql"] for query in queries.captured_queries)
    assert "accounts_quotausage" in quota
    assert "inventory_pet" in page
