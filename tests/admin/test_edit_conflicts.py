"""Two staff edit the same row: the second is told, sees what is stored now, and keeps what they typed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from accounts.models import ApiKey, Plan
from inventory.models import Category, Pet
from tests.support.staff import signed_in, superuser

HIDDEN = re.compile(r'name="_version" value="([0-9a-f]{64})"')
CONFLICT = "while you had it open. Your changes were not saved."


@pytest.fixture
def ann(db: None) -> Client:
    return signed_in(superuser("ann"))


@pytest.fixture
def bob(db: None) -> Client:
    return signed_in(superuser("bob"))


def page_of(row: Any) -> str:
    return f"/admin/{row._meta.label_lower.replace('.', '/')}/{row.pk}/change/"


def opened(client: Client, row: Any) -> dict[str, str]:
    """Open the form and return what it carries."""
    found = HIDDEN.search(client.get(page_of(row)).text)
    assert found
    return {"_version": found[1]}


def test_the_second_is_told_who_was_faster_and_what_is_stored(
    ann: Client, bob: Client, category: Category
) -> None:
    his, hers = opened(bob, category), opened(ann, category)
    assert ann.post(page_of(category), {"name": "Ann's", "description": ""} | hers).status_code == 302
    response = bob.post(page_of(category), {"name": "Bob's", "description": "His."} | his)
    assert response.status_code == 200
    text = response.text.replace("&#x27;", "'")
    assert f"ann changed this {CONFLICT}" in text
    assert "Name: Ann's" in text
    assert 'value="Bob\'s"' in text
    assert "His." in text
    category.refresh_from_db()
    assert (category.name, category.description) == ("Ann's", "")


def test_who_was_told_can_save_again(ann: Client, bob: Client, category: Category) -> None:
    his = opened(bob, category)
    ann.post(page_of(category), {"name": "Hers"} | opened(ann, category))
    told = bob.post(page_of(category), {"name": "His"} | his)
    again = HIDDEN.search(told.text)
    assert again
    assert bob.post(page_of(category), {"name": "His", "_version": again[1]}).status_code == 302
    category.refresh_from_db()
    assert category.name == "His"


def test_the_same_member_of_staff_in_two_tabs_is_told_too(ann: Client, category: Category) -> None:
    first, second = opened(ann, category), opened(ann, category)
    ann.post(page_of(category), {"name": "First"} | first)
    assert CONFLICT in ann.post(page_of(category), {"name": "Second"} | second).text


def test_a_form_with_a_mistake_keeps_its_version(ann: Client, bob: Client, category: Category) -> None:
    his = opened(bob, category)
    mistaken = bob.post(page_of(category), {"name": ""} | his)
    assert HIDDEN.findall(mistaken.text) == [his["_version"]]


def test_what_the_form_does_not_offer_is_no_conflict(ann: Client, key: ApiKey) -> None:
    hers = opened(ann, key)
    ApiKey.objects.filter(pk=key.pk).update(last_used_at="2026-01-01T00:00:00Z")
    assert ann.post(page_of(key), {"name": "Till"} | hers).status_code == 302


@pytest.mark.parametrize("version", ["", "x", "0" * 64, "\u00e9", "x" * 100_000])
def test_a_forged_version_saves_nothing_and_breaks_nothing(
    ann: Client, category: Category, version: str
) -> None:
    response = ann.post(page_of(category), {"name": "Hers", "_version": version})
    assert CONFLICT in response.text
    category.refresh_from_db()
    assert category.name != "Hers"


def test_a_row_that_was_deleted_meanwhile_is_said_to_be_gone(ann: Client, db: None) -> None:
    kind = Category.objects.create(name="Newts")
    hers, path = opened(ann, kind), page_of(kind)
    kind.delete()
    response: Any = ann.post(path, {"name": "Olms"} | hers)
    assert response.status_code == 404
    assert "what it showed was deleted" in response.text


def changes(model: str, request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a row of the model, what somebody else changes of it, and the form of the second."""
    category = Category.objects.earliest("id")
    if model == "account":
        row: Any = request.getfixturevalue("account")
        return row, {"name": "Other"}, {"name": "Mine", "plan": "free"}
    if model == "key":
        return request.getfixturevalue("key"), {"name": "Other"}, {"name": "Mine"}
    if model == "plan":
        return Plan.objects.get(code="free"), {"per_day": 7}, {"per_minute": 1, "per_day": 2}
    if model == "pet":
        pet = Pet.objects.create(name="Rex", category=category)
        return pet, {"status": "pending"}, {"name": "Max", "category": category.pk, "status": "sold"}
    if model == "user":
        return User.objects.create(username="clerk"), {"is_active": False}, {"username": "clerk"}
    return Group.objects.create(name="Mine"), {"name": "Other"}, {"name": "Third"}


@pytest.mark.parametrize("model", ["account", "key", "plan", "pet", "user", "group"])
def test_every_form_of_ours_tells_of_it(ann: Client, model: str, request: pytest.FixtureRequest) -> None:
    row, theirs, form = changes(model, request)
    hers = opened(ann, row)
    type(row).objects.filter(pk=row.pk).update(**theirs)
    response = ann.post(page_of(row), form | hers)
    assert f"Somebody changed this {CONFLICT}" in response.text
    assert type(row).objects.filter(pk=row.pk, **theirs).exists()


def test_a_group_whose_permissions_changed_is_a_conflict(ann: Client, db: None) -> None:
    group = Group.objects.get(name="Viewer")
    hers = opened(ann, group)
    group.permissions.remove(group.permissions.earliest("pk"))
    kept = set(group.permissions.values_list("pk", flat=True))
    assert CONFLICT in ann.post(page_of(group), {"name": "Viewer"} | hers).text
    assert set(group.permissions.values_list("pk", flat=True)) == kept
