"""GET /v1/pets/{petId}: the contract's deprecated operation, D7, D33."""

from datetime import UTC, datetime, timedelta

import pytest

from inventory.models import Category, Pet
from inventory.views import PetViewSet
from tests.conftest import Api
from tests.support.int64_texts import UNKNOWN_PATH_IDS
from tests.support.responses import get_error

REMOVAL = datetime(2030, 12, 5, tzinfo=UTC)


@pytest.mark.parametrize("pet_id", [-(2**63), -1, 2**63 - 1])
def test_pet_with_any_int64_id_is_returned(api: Api, category: Category, pet_id: int) -> None:
    Pet.objects.create(pk=pet_id, name="Biscuit", category=category)
    response = api.get(f"/pets/{pet_id}")
    assert (response.status_code, response.json()["id"]) == (200, pet_id)


@pytest.mark.parametrize("pet_id", UNKNOWN_PATH_IDS)
def test_unknown_or_malformed_id_is_not_found(api: Api, pet: Pet, pet_id: str) -> None:
    assert get_error(api.get(f"/pets/{pet_id}")) == (404, "pet_not_found")


def test_every_response_announces_the_deprecation(api: Api, anonymous_api: Api, pet: Pet) -> None:
    for response in (api.get(f"/pets/{pet.id}"), api.get("/pets/0"), anonymous_api.get("/pets/1")):
        assert response.headers["Deprecation"] == "@1764892800"  # 5 December 2025
        assert response.headers["Sunset"] == "Thu, 05 Dec 2030 00:00:00 GMT"
        successor = '<http://testserver/v1/pets?status=available>; rel="successor-version"'
        assert successor in response.headers["Link"].split(", ")


@pytest.mark.parametrize(
    ("now", "status"),
    [(REMOVAL - timedelta(microseconds=1), 200), (REMOVAL, 410), (REMOVAL + timedelta(days=400), 410)],
)
def test_operation_gets_410_from_its_removal_date(
    api: Api, pet: Pet, now: datetime, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PetViewSet, "clock", lambda view: now)
    response = api.get(f"/pets/{pet.id}")
    assert response.status_code == status
    if status == 410:
        assert response.json()["code"] == "endpoint_removed"
