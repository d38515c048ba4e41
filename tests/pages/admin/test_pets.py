"""Admin of pets and categories: bulk actions, and lists that scale to a million rows."""

import re
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client

from accounts.models import Account
from inventory.models import Category, Order, Pet, PetStatus, TransitionError
from inventory.search import filter_by_prefix
from tests.support.costs import count_queries
from tests.support.staff import CONFIRMED, list_rows, page_url, run_bulk_action

PETS = "/admin/inventory/pet/"
run_action = partial(run_bulk_action, path=PETS)


@pytest.fixture
def pets(category: Category) -> dict[str, Pet]:
    """One pet of each status, by status."""
    return {
        status: Pet.objects.create(name=f"{status} one".capitalize(), category=category, status=status)
        for status in PetStatus.values
    }


def stored_statuses(*pets: Pet) -> list[str]:
    return [Pet.objects.get(pk=pet.pk).status for pet in pets]


def test_bulk_action_reports_changed_and_skipped_pets(staff: Client, pets: dict[str, Pet]) -> None:
    page = run_action(staff, "make_available", *pets.values())
    assert "is made available." in page
    available, sold = pets["available"], pets["sold"]
    sold_reason = f"Pet {sold.pk} is sold. To return it to stock, enter a reason."
    available_reason = f"Pet {available.pk} is available; it can't become available."
    assert f"2 not made available. {sold_reason} {available_reason}" in page
    assert stored_statuses(*pets.values()) == ["available", "available", "sold"]


def test_return_to_stock_asks_for_a_reason_and_stores_it(staff: Client, pets: dict[str, Pet]) -> None:
    assert "Return to stock" in run_action(staff, "return_to_stock", *pets.values())
    assert stored_statuses(pets["sold"]) == ["sold"]
    reason = "The buyer is allergic."
    page = run_action(staff, "return_to_stock", *pets.values(), reason=reason, **CONFIRMED)
    assert "2 not returned to stock." in page
    sold = [Pet.objects.create(name="Rex", category=pets["sold"].category, status="sold") for _ in range(8)]
    page = run_action(staff, "set_pending", *sold)
    assert page.count("is sold; it can't become pending.") == 5
    assert " and 3 more" in page
    assert stored_statuses(*pets.values()) == ["available", "pending", "available"]
    assert pets["sold"].events.get().reason == reason


@pytest.mark.parametrize("on_its_page", [True, False])
def test_return_of_a_pet_that_an_order_sold_returns_the_order(
    staff: Client, account: Account, pet: Pet, *, on_its_page: bool
) -> None:
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    order.approve(by="tests")
    order.deliver(by="tests")
    if on_its_page:
        form = {"name": pet.name, "category": pet.category_id, "status": "available", "reason": "Allergic"}
        assert staff.post(f"{PETS}{pet.pk}/change/", form).status_code == 302
    else:
        run_action(staff, "return_to_stock", pet, reason="Allergic", **CONFIRMED)
    order.refresh_from_db()
    assert (order.stage, order.status, stored_statuses(pet)) == ("returned", "delivered", ["available"])
    event = order.events.latest("id")
    assert (event.by, event.reason) == ("staff boss", "Allergic")
    assert pet.events.latest("id").order_id == order.pk


def test_pet_deleted_concurrently_is_reported(
    staff: Client, pets: dict[str, Pet], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_does_not_exist(*args: Any, **options: Any) -> None:
        raise Pet.DoesNotExist

    monkeypatch.setattr(Pet, "refresh_from_db", raise_does_not_exist)
    page = run_action(staff, "mark_sold", pets["available"])
    assert f"1 not marked sold. Pet {pets['available'].pk} was deleted." in page


def test_bulk_action_costs_few_queries_per_pet(staff: Client, category: Category) -> None:
    pets = [Pet.objects.create(name=f"Pet {number}", category=category) for number in range(5)]
    few = count_queries(lambda: run_action(staff, "mark_sold", pets[0]))
    assert count_queries(lambda: run_action(staff, "mark_sold", *pets[1:])) - few <= 3 * 12


def test_forged_selection_reaches_no_other_rows(staff: Client, pets: dict[str, Pet]) -> None:
    before = stored_statuses(*pets.values())
    chosen = (["abc"], ["9" * 30], ["-1"], ["\u0661"], [""], [str(number) for number in range(201)])
    forged: list[dict[str, Any]] = [{"_selected_action": ids} for ids in chosen]
    forged += [{"select_across": "1"}, {"select_across": "1", "_selected_action": ["999999999"]}]
    forged.append({"index": "x" * 99, "_selected_action": ["999999999"]})
    for data in forged:
        assert staff.post(PETS, {"action": "mark_sold"} | data).status_code in {200, 302, 400}
    run_action(staff, "delete_selected", *pets.values(), post="yes")  # There is no such action.
    assert stored_statuses(*pets.values()) == before


def test_selection_across_pages_is_confirmed_first(
    staff: Client, category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petstore.backoffice.changelist.MAX_ACTION_ROWS", 60)
    Pet.objects.bulk_create(Pet(name=f"Pet {number}", category=category) for number in range(65))
    Pet.objects.bulk_create(Pet(name="Sold", category=category, status="sold") for _ in range(3))
    page = staff.get(PETS, {"status__exact": "available"})
    assert "Select up to 60 rows of the list" in page.text
    data = {"action": "mark_sold", "select_across": "1", "_selected_action": [1]}
    confirmation = staff.post(f"{PETS}?status__exact=available", data)
    ids = re.findall(r'name="_selected_action" value="(\d+)"', confirmation.text)
    newest = Pet.objects.filter(status="available").order_by("-id").values_list("id", flat=True)
    assert [int(pk) for pk in ids] == list(newest[:60])
    assert Pet.objects.filter(status="sold").count() == 3
    staff.post(PETS, {"action": "mark_sold", "_selected_action": ids} | CONFIRMED)
    assert Pet.objects.filter(status="available").count() == 5
    assert "Select up to" not in staff.get(PETS, {"status__exact": "available"}).text


def test_save_returns_to_the_list_and_save_and_add_another_keeps_the_category(
    staff: Client, category: Category
) -> None:
    data = {"name": "Tom", "category": category.pk, "status": "available"}
    assert staff.post(f"{PETS}add/", data).headers["Location"] == PETS
    Pet.objects.all().delete()
    page = staff.post(f"{PETS}add/", data | {"_addanother": "1"}, follow=True)
    assert page.context["adminform"].form["category"].value() == category.pk
    assert len(list_rows(staff, PETS, category__id__exact=category.pk)) == 1


@pytest.fixture
def many_pets(category: Category, monkeypatch: pytest.MonkeyPatch) -> list[Pet]:
    """Create 12 pets for a list with 5 on a page."""
    monkeypatch.setattr(admin.site.get_model_admin(Pet), "list_per_page", 5)
    Pet.objects.bulk_create(Pet(name=f"Pet {number % 7}", category=category) for number in range(12))
    return list(Pet.objects.order_by("id"))


def follow_pages(staff: Client, direction: str, query: str) -> list[list[Any]]:
    """Follow the links to the end, and return the pages."""
    pages = []
    while True:
        changelist = staff.get(f"{PETS}{query}").context["cl"]
        pages.append(list(changelist.result_list))
        query = getattr(changelist, f"{direction}_query")
        if not query:
            return pages


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("", lambda pet: -pet.pk),
        ("?o=2", lambda pet: pet.pk),
        ("?q=pet", lambda pet: (pet.name, pet.pk)),
        ("?status__exact=available", lambda pet: -pet.pk),
    ],
)
def test_pagination_shows_every_pet_once_in_both_directions(
    staff: Client, many_pets: list[Pet], query: str, order: Any
) -> None:
    expected = sorted(many_pets, key=order)
    pages = follow_pages(staff, "next", query)
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [pet for page in pages for pet in page] == expected
    last_page = f"{query}{'&' if query else '?'}after={pages[1][-1].pk}"
    backwards = follow_pages(staff, "previous", last_page)
    assert [pet for page in backwards[::-1] for pet in page] == expected


def plan_without_sorting(rows: Any) -> str:
    """Explain the query, without a sort if the database can avoid it.

    PostgreSQL's own choice would depend on the rows that other tests leave in the table.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_sort = off")
            cursor.execute("SET LOCAL enable_seqscan = off")
    return str(rows.explain())


@pytest.mark.parametrize("prefix", ["pet 12", "\u00e9"])
def test_search_by_prefix_reads_an_index_in_order(category: Category, prefix: str) -> None:
    Pet.objects.bulk_create(Pet(name=f"Pet {number}", category=category) for number in range(500))
    plan = plan_without_sorting(filter_by_prefix(Pet.objects.all(), prefix)[:51])
    assert "pet_by_folded_name" in plan
    assert not re.search("Sort|TEMP B-TREE", plan)


@pytest.mark.parametrize("page", ["pet", "order", "category"])
def test_only_indexed_columns_are_sortable(staff: Client, pets: Any, page: str) -> None:
    for order in ("4", "-5", "9", "x"):
        response = staff.get(f"/admin/inventory/{page}/?o={order}&after=1")
        assert response.status_code in {200, 302}
        if response.status_code == 200:
            ordering = set(response.context["cl"].queryset.query.order_by)
            assert not {"updated_at", "-updated_at", "created_at"} & ordering


def test_status_that_changed_since_the_form_was_checked_is_kept(
    staff: Client, pet: Pet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*args: Any, **options: Any) -> None:
        raise TransitionError("The pet has been ordered.")

    monkeypatch.setattr(Pet, "change_status", reject)
    form = {"name": pet.name, "category": pet.category_id, "status": "sold"}
    assert "The pet has been ordered." in staff.post(page_url(pet), form, follow=True).text
    assert stored_statuses(pet) == ["available"]
