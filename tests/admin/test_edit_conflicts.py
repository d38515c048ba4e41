"""A conflicting edit is rejected, shows the stored values and keeps the input."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from accounts.models import ApiKey, Plan
from inventory.models import Category, Pet
from tests.support.staff import page_url, signed_in, superuser

VERSION_INPUT = re.compile(r'name="_version" value="([0-9a-f]{64})"')
CONFLICT = "while you had it open. Your changes were not saved."


@pytest.fixture
def ann(db: None) -> Client:
    return signed_in(superuser("ann"))


@pytest.fixture
def bob(db: None) -> Client:
    return signed_in(superuser("bob"))


def open_form(client: Client, row: Any) -> dict[str, str]:
    """Open the form and return its hidden version field."""
    match = VERSION_INPUT.search(client.get(page_url(row)).text)
    assert match
    return {"_version": match[1]}


def test_conflict_names_the_other_user_and_the_stored_values(
    ann: Client, bob: Client, category: Category
) -> None:
    his, hers = open_form(bob, category), open_form(ann, category)
    assert ann.post(page_url(category), {"name": "Ann's", "description": ""} | hers).status_code == 302
    response = bob.post(page_url(category), {"name": "Bob's", "description": "His."} | his)
    assert response.status_code == 200
    text = response.text.replace("&#x27;", "'")
    assert f"ann changed this {CONFLICT}" in text
    assert "Name: Ann's" in text
    assert 'value="Bob\'s"' in text
    assert "His." in text
    category.refresh_from_db()
    assert (category.name, category.description) == ("Ann's", "")


def test_second_save_after_a_conflict_succeeds(ann: Client, bob: Client, category: Category) -> None:
    his = open_form(bob, category)
    ann.post(page_url(category), {"name": "Hers"} | open_form(ann, category))
    response = bob.post(page_url(category), {"name": "His"} | his)
    match = VERSION_INPUT.search(response.text)
    assert match
    assert bob.post(page_url(category), {"name": "His", "_version": match[1]}).status_code == 302
    category.refresh_from_db()
    assert category.name == "His"


def test_invalid_form_keeps_its_version(ann: Client, bob: Client, category: Category) -> None:
    his = open_form(bob, category)
    response = bob.post(page_url(category), {"name": ""} | his)
    assert VERSION_INPUT.findall(response.text) == [his["_version"]]


def test_change_of_a_field_outside_the_form_is_no_conflict(ann: Client, key: ApiKey) -> None:
    hers = open_form(ann, key)
    ApiKey.objects.filter(pk=key.pk).update(last_used_at="2026-01-01T00:00:00Z")
    assert ann.post(page_url(key), {"name": "Till"} | hers).status_code == 302


@pytest.mark.parametrize("version", ["", "x", "0" * 64, "\u00e9", "x" * 100_000])
def test_forged_version_is_rejected(ann: Client, category: Category, version: str) -> None:
    response = ann.post(page_url(category), {"name": "Hers", "_version": version})
    assert CONFLICT in response.text
    category.refresh_from_db()
    assert category.name != "Hers"


def test_concurrently_deleted_row_is_reported_missing(ann: Client, db: None) -> None:
    kind = Category.objects.create(name="Newts")
    hers, path = open_form(ann, kind), page_url(kind)
    kind.delete()
    response: Any = ann.post(path, {"name": "Olms"} | hers)
    assert response.status_code == 404
    assert "its record was deleted" in response.text


def prepare_edit(model: str, request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a row, the change of another user, and the form of the second."""
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
        clerk = User.objects.create(username="clerk", is_staff=True)
        return clerk, {"is_active": False}, {"username": "clerk"}
    return Group.objects.create(name="Mine"), {"name": "Other"}, {"name": "Third"}


@pytest.mark.parametrize("model", ["account", "key", "plan", "pet", "user", "group"])
def test_every_change_form_detects_conflicts(
    ann: Client, model: str, request: pytest.FixtureRequest
) -> None:
    row, theirs, form = prepare_edit(model, request)
    hers = open_form(ann, row)
    type(row).objects.filter(pk=row.pk).update(**theirs)
    response = ann.post(page_url(row), form | hers)
    assert f"Another user changed this {CONFLICT}" in response.text
    assert type(row).objects.filter(pk=row.pk, **theirs).exists()


def test_conflict_with_a_client_names_no_earlier_editor(ann: Client, bob: Client, pet: Pet) -> None:
    form = {"name": "Hers", "category": str(pet.category_id), "status": pet.status}
    assert ann.post(page_url(pet), form | open_form(ann, pet)).status_code == 302
    his = open_form(bob, pet)
    Pet.objects.filter(pk=pet.pk).update(name="Theirs", updated_at=timezone.now())
    response = bob.post(page_url(pet), form | {"name": "His"} | his)
    assert f"Another user changed this {CONFLICT}" in response.text


def test_changed_permissions_of_a_group_are_a_conflict(ann: Client, db: None) -> None:
    group = Group.objects.get(name="Viewer")
    hers = open_form(ann, group)
    group.permissions.remove(group.permissions.earliest("pk"))
    permissions = set(group.permissions.values_list("pk", flat=True))
    assert CONFLICT in ann.post(page_url(group), {"name": "Viewer"} | hers).text
    assert set(group.permissions.values_list("pk", flat=True)) == permissions
