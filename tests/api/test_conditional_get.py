"""ETag and If-None-Match: D32."""

from typing import Any

import pytest

from inventory.models import Category, Pet
from tests.conftest import Api


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet.objects.create(name="Biscuit", category=category)


@pytest.fixture(params=["/pets", "/pets/{id}", "/categories"])
def path(request: Any, pet: Pet) -> str:
    return str(request.param).format(id=pet.id)


@pytest.mark.parametrize("form", ["{0}", "W/{0}", '"other", {0}', "*", '"a" , W/{0} '])
def test_answer_that_the_client_has_is_not_sent_again(api: Api, path: str, form: str) -> None:
    tag = api.get(path).headers["ETag"]
    response = api.get(path, If_None_Match=form.format(tag))
    assert (response.status_code, response.content, response.headers["ETag"]) == (304, b"", tag)
    assert response.headers["X-RateLimit-Remaining"]


def test_head_can_be_conditional_too(api: Api, path: str) -> None:
    tag = api.get(path).headers["ETag"]
    assert api("HEAD", path, If_None_Match=tag).status_code == 304


@pytest.mark.parametrize("sent", ['"other"', "", "nonsense", '"', "W/", "é"])
def test_other_versions_are_answered_in_full(api: Api, path: str, sent: str) -> None:
    assert api.get(path, If_None_Match=sent).status_code == 200


def test_changed_pet_has_another_version(api: Api, pet: Pet, path: str) -> None:
    tag = api.get(path).headers["ETag"]
    Pet.objects.update(name="Pickle")
    Category.objects.update(description="Changed.")
    response = api.get(path, If_None_Match=tag)
    assert response.status_code == 200
    assert response.headers["ETag"] != tag


def test_answers_are_kept_by_the_caller_alone(api: Api, stranger: Api, path: str) -> None:
    response = api.get(path)
    assert (response.headers["Cache-Control"], response.headers["Vary"]) == (
        "private, no-cache",
        "Authorization",
    )
    assert stranger.get(path).headers["Cache-Control"] == "no-store"


def test_304_costs_one_request(api: Api, path: str) -> None:
    first = api.get(path)
    second = api.get(path, If_None_Match=first.headers["ETag"])
    left = [int(response.headers["X-RateLimit-Remaining"]) for response in (first, second)]
    assert left[1] == left[0] - 1
