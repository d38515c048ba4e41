"""Reading pets and categories: D5 to D7, D9 to D11, D33, D44 and D61."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from rest_framework.mixins import ListModelMixin

from inventory.models import Category, Pet, PetStatus
from inventory.queries import PETS
from inventory.serializers import PetSerializer
from inventory.views import PetViewSet
from tests.conftest import Api
from tests.support.int64_texts import UNKNOWN_PATH_IDS
from tests.support.responses import follow_pages, get_error, get_next_path


@pytest.fixture
def pets(category: Category) -> list[Pet]:
    """Fifty pets: 30 available, 10 pending, 10 sold."""
    statuses = [PetStatus.AVAILABLE] * 3 + [PetStatus.PENDING, PetStatus.SOLD]
    return Pet.objects.bulk_create(
        Pet(name=f"Pet {number}", category=category, status=statuses[number % 5]) for number in range(50)
    )


@pytest.mark.parametrize("limit", [1, 49, 50, 100])
def test_limit_is_applied_and_the_last_page_has_no_next_link(api: Api, pets: list[Pet], limit: int) -> None:
    response = api.get(f"/pets?limit={limit}")
    assert response.json() == [pet.as_json() for pet in pets[:limit]]
    assert (get_next_path(response) is None) is (limit >= 50)
    if limit > 1:
        assert [pet for page in follow_pages(api, f"/pets?limit={limit}") for pet in page] == [
            pet.as_json() for pet in pets
        ]


def test_limit_defaults_to_20_and_unknown_parameters_are_ignored(api: Api, pets: list[Pet]) -> None:
    for query in ("", "?colour=red&format=xml&page=2"):
        assert api.get(f"/pets{query}").json() == [pet.as_json() for pet in pets[:20]]
    for path in ("/categories", "/store/orders"):  # The filter applies to pets only.
        assert api.get(f"{path}?categoryId=dogs").json() == api.get(path).json()


INVALID = {
    "limit": ["0", "101", "-1", "", "1.0", "1e1", "ten", "+5", "%D9%A5", "9" * 5000, "%00", "5&limit=5"],
    "status": ["", "lost", "SOLD", "sold ", "%00", "%ff", "sold,pending", "sold&status=sold"],
    "categoryId": ["", "dogs", "1.0", "01", "+1", "-0", "1,2", "%00", "%ff", "%D9%A1", str(2**63),
                   "9" * 5000, "1&categoryId=1"],
    "ids": ["", ",", "1,", ",1", "1,,2", "1, 2", "one", "01", "1;2", "%00", "%ff", "%D9%A1", str(2**63),
            ",".join(map(str, range(101))), "1&ids=2"],
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_value_is_an_invalid_parameter(api: Api, name: str) -> None:
    for value in INVALID[name]:
        response = api.get(f"/pets?{name}={value}")
        assert get_error(response) == (400, "invalid_parameter"), value
        assert f"`{name}`" in response.json()["message"]


def test_status_and_category_filter(api: Api, pets: list[Pet], cat: Pet) -> None:
    for status in PetStatus.values:
        expected = [pet.as_json() for pet in [*pets, cat] if pet.status == status]
        assert api.get(f"/pets?limit=100&status={status}").json() == expected
    for query in ("", "&status=sold"):
        assert api.get(f"/pets?categoryId={cat.category_id}{query}").json() == [cat.as_json()]
    assert api.get(f"/pets?categoryId={cat.category_id}&status=pending").json() == []
    sold = [pet.as_json() for pet in pets if pet.status == PetStatus.SOLD]
    assert api.get(f"/pets?status=sold&categoryId={pets[0].category_id}").json() == sold
    for category_id in (999_999, 0, -1, 2**63 - 1, -(2**63)):
        response = api.get(f"/pets?categoryId={category_id}")
        assert (response.status_code, response.json(), get_next_path(response)) == (200, [], None)


@pytest.fixture
def cat(pets: list[Pet]) -> Pet:
    return Pet.objects.create(name="Cat", category=Category.objects.latest("id"), status=PetStatus.SOLD)


def test_ids_select_known_pets_by_ascending_id(api: Api, pets: list[Pet]) -> None:
    known = [pet.id for pet in pets]
    extremes = [2**63 - 1, -(2**63), 0, -1]
    for sent in ([known[3]], [known[9], known[2], known[9], *extremes], extremes, known[::-1] + [0] * 50):
        expected = [pet.as_json() for pet in pets if pet.id in sent]
        response = api.get(f"/pets?limit=100&ids={','.join(map(str, sent))}")
        assert (response.json(), get_next_path(response)) == (expected, None)


def test_ids_combine_with_other_filters_and_pages(api: Api, pets: list[Pet], cat: Pet) -> None:
    ids = ",".join(str(pet.id) for pet in [*pets, cat])
    sold = [pet.as_json() for pet in [*pets, cat] if pet.status == PetStatus.SOLD]
    pages = [*follow_pages(api, f"/pets?status=sold&limit=4&ids={ids}")]
    assert [len(page) for page in pages] == [4, 4, 3]
    assert [pet for page in pages for pet in page] == sold
    assert api.get(f"/pets?categoryId={cat.category_id}&ids={ids}").json() == [cat.as_json()]
    assert api.get(f"/pets?categoryId={cat.category_id}&status=pending&ids={ids}").json() == []


def test_next_link_repeats_only_filters_and_limit(api: Api, pets: list[Pet], cat: Pet) -> None:
    filters = {"limit": "4", "status": "available", "categoryId": str(pets[0].category_id)}
    path = f"/pets?colour=red&{urlencode(filters)}"
    next_path = get_next_path(api.get(path))
    assert next_path is not None
    assert next_path.startswith("/pets?")
    query = dict(parse_qsl(urlsplit(next_path).query))
    assert query == filters | {"cursor": query["cursor"]}
    assert [len(page) for page in follow_pages(api, path)] == [4] * 7 + [2]


def test_concurrent_inserts_and_deletes_neither_repeat_nor_hide_rows(
    api: Api, pets: list[Pet], category: Category
) -> None:
    pages = follow_pages(api, "/pets?limit=10")
    ids = [pet["id"] for pet in next(pages)]
    pets[3].delete()
    Pet.objects.create(name="Late", category=category)
    ids += [pet["id"] for page in pages for pet in page]
    assert ids == [pet.id or ids[3] for pet in pets] + [Pet.objects.latest("id").id]


REMOVAL = datetime(2030, 12, 5, tzinfo=UTC)


@pytest.mark.parametrize("pet_id", [-(2**63), -1, 2**63 - 1])
def test_pet_with_any_int64_id_is_returned(api: Api, category: Category, pet_id: int) -> None:
    Pet.objects.create(pk=pet_id, name="Biscuit", category=category)
    response = api.get(f"/pets/{pet_id}")
    assert (response.status_code, response.json()["id"]) == (200, pet_id)


def test_unknown_or_malformed_id_is_not_found(api: Api, pet: Pet) -> None:
    for pet_id in UNKNOWN_PATH_IDS:
        assert get_error(api.get(f"/pets/{pet_id}")) == (404, "pet_not_found"), pet_id


def test_every_response_announces_the_deprecation(api: Api, anonymous_api: Api, pet: Pet) -> None:
    for response in (api.get(f"/pets/{pet.id}"), api.get("/pets/0"), anonymous_api.get("/pets/1")):
        assert response.headers["Deprecation"] == "@1764892800"  # 5 December 2025
        assert response.headers["Sunset"] == "Thu, 05 Dec 2030 00:00:00 GMT"
        successor = '<http://testserver/v1/pets?status=available>; rel="successor-version"'
        assert successor in response.headers["Link"].split(", ")


def test_operation_gets_410_from_its_removal_date(api: Api, pet: Pet, monkeypatch: Any) -> None:
    monkeypatch.setattr(PetViewSet, "clock", lambda view: REMOVAL - timedelta(microseconds=1))
    assert api.get(f"/pets/{pet.id}").status_code == 200
    for later in (timedelta(), timedelta(days=400)):
        monkeypatch.setattr(PetViewSet, "clock", lambda view, later=later: REMOVAL + later)
        assert get_error(api.get(f"/pets/{pet.id}")) == (410, "endpoint_removed")


def test_fresh_database_has_starter_categories_with_ids_from_1(api: Api) -> None:
    listed = api.get("/categories").json()
    assert [category["id"] for category in listed] == list(range(1, 11))
    assert set(listed[0]) == {"id", "name", "description"}
    assert all(category["name"] and category["description"] for category in listed)


def test_cursor_that_was_changed_or_is_of_another_list_is_invalid(api: Api, pets: list[Pet]) -> None:
    def get_cursor(path: str) -> str:
        return dict(parse_qsl(urlsplit(get_next_path(api.get(path)) or "").query))["cursor"]

    cursor = get_cursor("/pets?limit=1")
    assert api.get(f"/pets?cursor={cursor}").status_code == 200
    for sent in (
        cursor[:-1], "2" + cursor, cursor.upper(), cursor.split(".")[1], "", "%00", "a" * 5000, "%ff", "é",
        get_cursor("/categories?limit=1"),
    ):  # fmt: skip
        assert get_error(api.get(f"/pets?cursor={sent}")) == (400, "invalid_parameter"), sent


@pytest.mark.parametrize("rows", [Pet.objects.all, lambda: PETS])
def test_mixin_of_drf_lists_a_queryset_or_a_read_with_the_same_pages(
    api: Api, pets: list[Pet], monkeypatch: pytest.MonkeyPatch, rows: Callable[[], Any]
) -> None:
    path = "/pets?limit=7&status=available"
    pages = list(follow_pages(api, path))
    monkeypatch.setattr(PetViewSet, "list", ListModelMixin.list)
    monkeypatch.setattr(PetViewSet, "get_queryset", lambda view: rows())
    monkeypatch.setattr(PetViewSet, "serializer_class", PetSerializer)
    assert list(follow_pages(api, path)) == pages
