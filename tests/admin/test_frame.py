"""Parts shared by all pages of the back office: landmarks, headings, filters and error pages."""

import re
from collections.abc import Collection
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from accounts.models import Account, ApiKey, PlanCode
from inventory.models import Category, Order, Pet
from tests.support.staff import member_of, signed_in


def get_heading(page: Any) -> str:
    """Return the text of the first heading, without icons."""
    match = re.search(r"<h1.*?</h1>", page.text, re.DOTALL)
    assert match is not None
    text = re.sub(r'<span class="material-symbols-outlined.*?</span>', " / ", match[0], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())


def test_first_link_skips_the_navigation(staff: Client) -> None:
    text = staff.get("/admin/inventory/pet/").text
    body = text[text.index("<body") :]
    first = re.search(r"<(?:a|button)\b[^>]*>[^<]*", body)
    assert first is not None
    assert first[0].endswith('href="#content">Skip to the content')
    assert re.search(r'<div id="content" tabindex="-1"', body)


def test_headings_keep_the_case_of_names(staff: Client, boss: User, key: ApiKey) -> None:
    account = Account.objects.create(name="acme pets", plan_id=PlanCode.FREE)
    pet = Pet.objects.create(name="rex", category=Category.objects.earliest("id"))
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    ApiKey.objects.filter(pk=key.pk).update(public_id="vFom1234abcdef")
    for path, name in [
        (f"auth/user/{boss.pk}/change", "boss"),
        (f"accounts/account/{account.pk}/change", "acme pets"),
        (f"accounts/apikey/{key.pk}/change", "vFom1234abcdef"),
        (f"accounts/apikey/{key.pk}/history", "vFom1234abcdef"),
        (f"inventory/pet/{pet.pk}/change", f"rex ({pet.pk})"),
        (f"inventory/order/{order.pk}/change", f"Orders / Order {order.pk}"),
        ("inventory/pet", "Pets"),
    ]:
        assert f"/ {name}" in get_heading(staff.get(f"/admin/{path}/")), path


@pytest.mark.parametrize(
    ("path", "title", "breadcrumbs"),
    [
        ("accounts/account/", "Accounts", "Accounts"),
        ("accounts/event/", "Events", "Events"),
        ("accounts/apikey/", "API keys", "API keys"),
        ("inventory/pet/", "Pets", "Pets"),
        ("accounts/account/add/", "Add account", "Accounts / Add account"),
        ("accounts/apikey/add/", "Issue a key", "API keys / Issue a key"),
        ("auth/user/", "Staff", "Staff"),
        ("auth/user/add/", "Add member of staff", "Staff / Add member of staff"),
        ("auth/user/make-staff/", "Make a person staff", "Staff / Make a person staff"),
        ("inventory/pet/import/", "Import pets", "Pets / Import pets"),
        ("inventory/pet/export/", "Export pets", "Pets / Export pets"),
        ("auth/group/1/change/", "Viewer | Roles", "Roles / Viewer"),
        ("backoffice/auditentry/", "Audit trail", "Audit trail"),
    ],
)
def test_page_titles_match_the_navigation(staff: Client, path: str, title: str, breadcrumbs: str) -> None:
    page = staff.get(f"/admin/{path}")
    match = re.search(r"<title>(.*?)</title>", page.text, re.DOTALL)
    assert match is not None
    assert " ".join(match[1].split()) == f"{title} | Pet Store"
    assert get_heading(page).startswith(f"Home / {breadcrumbs}")


def test_pages_without_a_model_have_their_title_as_heading(staff: Client) -> None:
    for path, title in (("accounts/refusal/", "Why refused?"), ("nothing/", "Not found")):
        assert get_heading(staff.get(f"/admin/{path}")) == title


MEMBER_PAGES = ("change_role", "remove")


def test_breadcrumbs_of_every_page_of_a_row_end_with_the_row(
    staff: Client, account: Account, key: ApiKey, category: Category
) -> None:
    colleague = member_of("Viewer")
    pet = Pet.objects.create(name="Rex", category=category)
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    rows: list[Any] = [account, account.plan, key, colleague, pet, order]
    pages = [
        (row, f"{row._meta.app_label}_{row._meta.model_name}_{name}", [row.pk])
        for row in rows
        for name in {*get_object_pages(row), "history"} - {"act"}
    ]
    owner = account.memberships.create(user=colleague, role="owner")
    pages += [(account, f"accounts_account_{page}", [account.pk, owner.pk]) for page in MEMBER_PAGES]
    pages.append((colleague, "auth_user_password_change", [colleague.pk]))
    pages.append((order, "inventory_order_act", [order.pk, "cancel"]))
    for row, name, args in pages:
        heading = get_heading(staff.get(reverse(f"admin:{name}", args=args)))
        assert heading.lower().endswith(f"/ {row}".lower()), name


def get_object_pages(row: Any) -> Collection[str]:
    model_admin: Any = admin.site.get_model_admin(type(row))
    forms = [form for form in getattr(model_admin, "action_forms", ()) if not form.relation]
    return [*model_admin.object_pages.values(), *(form.verb for form in forms)]


def test_only_lists_have_an_add_button(staff: Client) -> None:
    assert "addlink" in staff.get("/admin/accounts/account/").text
    for page in ("accounts/account/add/", "auth/group/1/change/", "auth/user/add/"):
        assert "addlink" not in staff.get(f"/admin/{page}").text


@pytest.mark.parametrize("path", ["inventory/order", "inventory/pet", "accounts/apikey", "auth/user"])
def test_lists_have_no_apply_button_for_filters(staff: Client, path: str) -> None:
    text = staff.get(f"/admin/{path}/").text
    assert "By status" in text or "filterOpen" in text
    assert "Apply" not in text
    assert "Clear all filters" not in text


@pytest.mark.parametrize(
    ("label", "options"),
    [
        ("Local", {"HTTPS": False}),
        ("Demo", {"HTTPS": False, "DEMO_KEY": "psk_live_demo"}),
        ("Production", {"HTTPS": True, "ENVIRONMENT": "production"}),
        ("Staging", {"HTTPS": True, "ENVIRONMENT": "staging"}),
    ],
)
def test_pages_show_the_environment_label(
    staff: Client, settings: Any, label: str, options: dict[str, Any]
) -> None:
    for name, value in options.items():
        setattr(settings, name, value)
    text = re.sub(r"\s+", "", staff.get("/admin/accounts/plan/").text)
    assert re.findall(">(Local|Demo|Production|Staging)<", text) == [label]


# --- 403 and 404 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("accounts/apikey/add/", "Roles that can: Owner, Support."),
        ("inventory/pet/import/", "Roles that can: Owner, Stock."),
        ("auth/user/", "Roles that can: Owner."),
        ("accounts/plan/add/", "This is not possible in the back office."),
    ],
)
def test_denied_page_names_the_roles_that_can_open_it(db: None, path: str, text: str) -> None:
    page = signed_in(member_of("Viewer")).get(f"/admin/{path}")
    assert page.status_code == 403
    assert text in page.text
    assert 'id="nav-sidebar"' in page.text


def test_disabled_operation_is_denied_to_superusers(staff: Client, key: ApiKey) -> None:
    page = staff.get(f"/admin/accounts/apikey/{key.pk}/delete/")
    assert (page.status_code, "This is not possible in the back office." in page.text) == (403, True)


@pytest.mark.parametrize("path", ["nothing/", "inventory/pet/999/history/", "inventory/order/1/act/eat/"])
def test_unknown_page_is_404_with_navigation(staff: Client, path: str) -> None:
    page = staff.get(f"/admin/{path}")
    assert page.status_code == 404
    assert "This page does not exist" in page.text
    assert 'id="nav-sidebar"' in page.text


@pytest.mark.parametrize("page", ["account/99999/change/", "account/99999/suspend/", "apikey/x/change/"])
def test_missing_row_is_404_with_a_link_to_the_list(staff: Client, page: str) -> None:
    response = staff.get(f"/admin/accounts/{page}")
    assert response.status_code == 404
    listing = f"/admin/accounts/{page.split('/', maxsplit=1)[0]}/"
    body = response.text[response.text.index('id="content"') :]
    assert [link for link in (listing, "/admin/") if f'href="{link}"' in body] == [listing, "/admin/"]


def test_empty_list_suggests_the_next_step(staff: Client) -> None:
    accounts = staff.get("/admin/accounts/account/").text
    assert "There are no accounts yet." in accounts
    assert "Add the first one" in accounts
    searched = staff.get("/admin/accounts/account/?q=zebra").text
    assert "No accounts match this search. Check the spelling or shorten it." in searched
    assert "Show all accounts" in searched
    filtered = staff.get("/admin/inventory/order/?status__exact=placed").text
    assert "match these filters." in filtered
    assert "Add the first one" not in filtered


def test_forms_have_no_delete_link_for_related_objects(staff: Client) -> None:
    for page in ("accounts/apikey/add/", "inventory/pet/add/", "accounts/account/add/"):
        assert "Delete selected" not in staff.get(f"/admin/{page}").text
