"""A conflicting edit is rejected, shows the stored values and keeps the input."""

import re
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

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


def test_conflict_names_the_other_user_and_the_stored_values_and_a_second_save_succeeds(
    ann: Client, bob: Client, category: Category
) -> None:
    his, hers = open_form(bob, category), open_form(ann, category)
    assert VERSION_INPUT.findall(bob.post(page_url(category), {"name": ""} | his).text) == [*his.values()]
    assert ann.post(page_url(category), {"name": "Ann's", "description": ""} | hers).status_code == 302
    form = {"name": "Bob's", "description": "His."}
    response = bob.post(page_url(category), form | his)
    text = response.text.replace("&#x27;", "'")
    for part in (f"ann changed this {CONFLICT}", "Name: Ann's", 'value="Bob\'s"', "His."):
        assert part in text
    category.refresh_from_db()
    assert (category.name, category.description) == ("Ann's", "")
    [version] = VERSION_INPUT.findall(response.text)
    assert bob.post(page_url(category), form | {"_version": version}).status_code == 302
    category.refresh_from_db()
    assert category.name == "Bob's"


def test_row_that_leaves_the_list_before_it_is_locked_is_not_found(
    ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a member of staff who is removed while a colleague saves the form."""
    row, find = superuser("removed"), ModelAdmin.get_object

    def find_and_remove(*args: Any) -> Any:
        found = find(*args)
        User.objects.filter(pk=row.pk).update(is_staff=False)
        return found

    version = open_form(ann, row)
    monkeypatch.setattr(ModelAdmin, "get_object", find_and_remove)
    assert ann.post(page_url(row), version).status_code == 404


def test_change_of_a_field_outside_the_form_is_no_conflict(ann: Client, key: ApiKey) -> None:
    hers = open_form(ann, key)
    ApiKey.objects.filter(pk=key.pk).update(last_used_at="2026-01-01T00:00:00Z")
    assert ann.post(page_url(key), {"name": "Till"} | hers).status_code == 302


def test_forged_version_is_rejected(ann: Client, category: Category) -> None:
    for version in ("", "0" * 64, "\u00e9", "x" * 100_000):
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


@pytest.mark.same_on_both
def test_every_change_form_detects_conflicts(ann: Client, key: ApiKey, pet: Pet) -> None:
    clerk = User.objects.create(username="clerk", is_staff=True)
    group = Group.objects.create(name="Mine")
    pet_form = {"name": "Max", "category": pet.category_id, "status": "sold"}
    edits: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [  # Another user's change, and the form.
        (key.account, {"name": "Other"}, {"name": "Mine", "plan": "free"}),
        (key, {"name": "Other"}, {"name": "Mine"}),
        (Plan.objects.get(code="free"), {"per_day": 7}, {"per_minute": 1, "per_day": 2}),
        (pet, {"status": "pending"}, pet_form),
        (clerk, {"is_active": False}, {"username": "clerk"}),
        (group, {"name": "Other"}, {"name": "Third"}),
    ]
    for row, theirs, form in edits:
        hers = open_form(ann, row)
        type(row).objects.filter(pk=row.pk).update(**theirs)
        assert f"Another user changed this {CONFLICT}" in ann.post(page_url(row), form | hers).text
        assert type(row).objects.filter(pk=row.pk, **theirs).exists()
    hers = open_form(ann, group)
    group.permissions.add(Permission.objects.earliest("pk"))
    assert CONFLICT in ann.post(page_url(group), {"name": "Other"} | hers).text
    assert group.permissions.count() == 1
