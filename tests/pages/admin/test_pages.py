"""The back office handles any input; pages of plans, accounts, pets and categories."""

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from accounts.events.sequencing import sequence_all
from accounts.models import Account, ApiKey
from inventory.models import Category, Order, Pet, PetEvent
from tests.support.staff import page_url
from tests.support.thorough import some

pytestmark = pytest.mark.same_on_both
HUGE = "9" * 22
LONG = "x" * 100_000
LONE_SURROGATE = "\ud800".encode("utf-8", "surrogatepass")


def path_of(model: Any) -> str:
    return str(model._meta.label_lower).replace(".", "/")


MODELS = [path_of(model) for model in admin.site._registry]


def url(page: str, *arguments: Any) -> str:
    return reverse(f"admin:{page}", args=arguments)


@pytest.fixture
def rows(pet: Pet, key: ApiKey) -> None:
    """At least one row of every model."""
    sequence_all()


QUERIES: dict[str, list[Any]] = {
    "q": ["a\0b", LONG, HUGE, LONE_SURROGATE, "a " * 125, "'\" % _ \\", '"', "\U0010ffff"],
    "p": ["abc", "-1", HUGE, "9" * 5000, "\0"],
    "o": ["abc", "99", HUGE, "1.-2.x..9", ".".join("1" * 100), "\0"],
    "status__exact": ["\0", "nothing"],
    "category__id__exact": ["\u0661", HUGE],
    "after": ["\u0661", "9" * 200],
    "before": ["abc"],
    "plan__code__exact": ["nothing"],
    "plan__isnull": ["x"],
    "groups__id__exact": [HUGE, "abc"],
    "is_staff__exact": ["abc"],
    "id__in": [HUGE],
    "id": [HUGE],
    "name__regex": ["("],
    "username__regex": ["("],
    "_to_field": ["nothing"],
    "_facets": ["True"],
    "_changelist_filters": ["\0"],
    **{name: ["1"] for name in ("nothing", "_popup", "all", "e", "\0")},
}
IDS = [HUGE, f"-{HUGE}", "abc", "%00", "%ED%A0%80", "_00", "x" * 5000, "1/2", "9" * 4500]
VALUES = ["\0", LONG, HUGE, f"-{HUGE}", "abc", LONE_SURROGATE, "5", "-1", ""]


def assert_handled(response: Any, value: Any) -> None:
    assert response.status_code in {200, 302, 400, 403, 404}, (response.status_code, value)


@pytest.mark.parametrize("model", MODELS)
def test_lists_accept_any_query_without_error(staff: Client, rows: None, model: str) -> None:
    queries = [{name: value} for name, values in QUERIES.items() for value in values]
    first = MODELS.index(model)
    for query in some(queries[first:] + queries[:first], 6):
        assert_handled(staff.get(f"/admin/{model}/", query), query)


@pytest.mark.parametrize("model", MODELS)
def test_pages_accept_any_id_without_error(staff: Client, rows: None, model: str) -> None:
    pages = ("", "change/", "delete/", "history/", "revoke/", "rotate/", "password/", "what-if/")
    for object_id, page in some([*product(IDS, pages)], 7):
        assert_handled(staff.get(f"/admin/{model}/{object_id}/{page}"), (object_id, page))
        assert_handled(staff.post(f"/admin/{model}/{object_id}/{page}"), (object_id, page))


@pytest.mark.parametrize("model", MODELS)
def test_pages_accept_any_form_without_error(staff: Client, rows: None, model: str) -> None:
    pages = next(found for kind, found in admin.site._registry.items() if path_of(kind) == model)
    names = [field.name for field in pages.model._meta.fields]
    names += "events-TOTAL_FORMS events-INITIAL_FORMS events-0-id expires_at_0 expires_at_1".split()
    names.append("submission_token")
    names += "password1 password2 groups permissions user_permissions date_joined_0 date_joined_1".split()
    row = pages.model._default_manager.first()
    paths = ["add"] + ([f"{row.pk}/change"] if row else [])
    for value, path in some([*product(VALUES, paths)], 3):
        sent = dict.fromkeys(names, value)
        assert_handled(staff.get(f"/admin/{model}/{path}/", sent), (path, value))
        assert_handled(staff.post(f"/admin/{model}/{path}/", sent), (path, value))


def test_autocomplete_and_site_accept_any_input_without_error(staff: Client, category: Category) -> None:
    field = {"app_label": "inventory", "model_name": "pet", "field_name": "category"}
    for value in ("\0", LONG, HUGE, "abc"):
        for name in ("term", "page"):
            assert staff.get("/admin/autocomplete/", field | {name: value}).status_code in {200, 400, 404}
    for path in ("nothing", "inventory", "r/999/1/", f"r/{HUGE}/{HUGE}/", "%00/", "jsi18n/", "x" * 9000):
        assert staff.get(f"/admin/{path}").status_code < 500
    list_page = "/admin/inventory/pet/"
    for text, status in (("\0", 400), ("x" * 251, 400), ("x" * 250, 200)):
        assert staff.get(list_page, {"q": text}).status_code == status
    charset = {"Content-Type": "text/plain; charset=utf-7"}  # Encodes a lone surrogate.
    assert staff.get(f"{list_page}?q=%2B2AA-", headers=charset).status_code == 400


@pytest.mark.parametrize("page", ["change", "delete"])
def test_empty_name_of_the_referenced_field_is_none(staff: Client, pet: Pet, page: str) -> None:
    assert staff.get(page_url(pet, page), {"_to_field": ""}).status_code == 200


def test_unstorable_session_id_is_rejected(db: None) -> None:
    client, cookie = Client(raise_request_exception=False), r'sessionid="\000aaaaaaaaaaaa"'
    for page in ("admin/", "admin/login/", "admin/inventory/pet/"):
        assert client.get(f"/{page}", headers={"Cookie": cookie}).status_code == 400


def test_deletion_counts_the_rows_that_go_with_a_row_and_loads_none(staff: Client, pet: Pet) -> None:
    event = {"from_status": "available", "to_status": "pending", "by": "staff boss"}
    PetEvent.objects.bulk_create(PetEvent(pet=pet, **event) for _ in range(300))
    page = staff.get(url("inventory_pet_delete", pet.pk)).text
    assert "Also deleted: 300 pet events." in page
    assert "Pending" not in page
    assert staff.post(url("inventory_pet_delete", pet.pk), {"post": "yes"}).status_code == 302
    assert not PetEvent.objects.exists()


@pytest.mark.parametrize("target", ["x", "1", "//example.com", "admin:logout"])
def test_sign_in_page_leads_staff_who_are_signed_in_to_no_other_target(staff: Client, target: str) -> None:
    assert staff.get("/admin/login/", {"next": target})["Location"] == "/admin/"


def test_any_filters_survive_a_visit_to_a_row(staff: Client, pet: Pet, order: Order) -> None:
    long = {"_changelist_filters": "q=" + "%F0%9F%90%B6" * 250}
    assert staff.get(url("inventory_pet_change", pet.pk), long).status_code == 200
    for filters in ("pet__name=x", "o=1&before=2", "status__exact=%00"):  # The page links its neighbours.
        assert_handled(staff.get(page_url(order), {"_changelist_filters": filters}), filters)


def test_lookups_outside_the_filters_of_a_list_are_rejected(staff: Client, key: ApiKey) -> None:
    for lookup in ("digest__startswith", "digest", "pepper_number", "account__name", "account__plan__code"):
        assert staff.get(url("accounts_apikey_changelist"), {lookup: "1"}).status_code == 400
    assert staff.get(url("auth_user_changelist"), {"password__startswith": "a"}).status_code == 400
    buyers_name = {"category__pets__orders__account__name__startswith": "A"}
    assert staff.get(url("inventory_pet_changelist"), buyers_name).status_code == 400
    assert staff.get(url("accounts_account_changelist"), {"plan__code__exact": "free"}).status_code == 200
    filtered = staff.get(url("auth_user_changelist"), {"is_active__exact": "1", "role": "1"})
    assert filtered.status_code == 200


def test_anonymous_users_only_see_the_login(db: None) -> None:
    for path in ("", "inventory/pet/", "accounts/apikey/add/", "accounts/apikey/1/revoke/", "nothing"):
        response: Any = Client().get(f"/admin/{path}")
        assert (response.status_code, response.url.split("?")[0]) == (302, "/admin/login/")


def test_referenced_row_is_not_deleted_and_the_reason_is_shown(
    staff: Client, account: Account, category: Category, issue: Callable[..., tuple[ApiKey, str]]
) -> None:
    empty = Account.objects.create(name="Empty", plan_id="free")
    assert staff.post(url("accounts_account_delete", empty.pk), {"post": "yes"}).status_code == 302
    assert list(Account.objects.all()) == [account]
    path = url("accounts_account_delete", account.pk)
    assert path in staff.get(url("accounts_account_change", account.pk)).text
    key, _ = issue()
    assert path not in staff.get(url("accounts_account_change", account.pk)).text
    texts = "because other records refer to it", f"Api key: {key.public_id}", "Suspend it instead"
    for response in (staff.get(path, follow=True), staff.post(path, {"post": "yes"}, follow=True)):
        assert all(text in response.text for text in texts)
    assert Account.objects.exists()
    Pet.objects.bulk_create(Pet(name=f"Pet {number}", category=category) for number in range(15))
    response = staff.post(url("inventory_category_delete", category.pk), {"post": "yes"}, follow=True)
    assert len(re.findall(r"Pet: Pet \d", response.text)) == 3
    assert "and more" in response.text
    assert Category.objects.filter(pk=category.pk).exists()


@pytest.mark.parametrize("path", ["inventory/pet", "accounts/apikey", "accounts/rejection"])
def test_searched_key_is_sent_by_post_and_removed_from_the_url(staff: Client, key: Any, path: str) -> None:
    page = f"/admin/{path}/"
    text = staff.get(page).text
    form = re.search(r'<form[^>]*method="post"[^>]*role="search".*?</form>', text, re.DOTALL)
    assert form
    assert "csrfmiddlewaretoken" in form[0]
    for text in ("Bearer {}", "x {}"):
        response = staff.post(page, {"q": text.format(key.text), "name": ["é&", "b"]})
        assert response["Location"] == f"{page}?q={key.public_id}&name=%C3%A9%26&name=b"
        assert staff.get(page, {"q": text.format(key.text)})["Location"] == f"{page}?q={key.public_id}"


def test_pages_of_django_lead_to_those_that_limit_attempts(staff: Client) -> None:
    """Sign-in, sign-out and passwords have one place, under /account/."""
    for page, target in (("password_change", "account_change_password"), ("logout", "account_logout")):
        assert staff.get(url(page)).headers["Location"] == reverse(target)
