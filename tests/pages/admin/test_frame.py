"""Parts shared by all pages of the back office: landmarks, headings, filters and error pages."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils.text import capfirst

from accounts.models import Account, ApiKey
from inventory.models import Category, Order, Pet
from tests.support.staff import member_of, signed_in

pytestmark = pytest.mark.same_on_both


def get_heading(page: Any) -> str:
    """Return the text of the first heading, without icons."""
    match = re.search(r"<h1.*?</h1>", page.text, re.DOTALL)
    assert match is not None
    text = re.sub(r'<span class="material-symbols-outlined.*?</span>', " / ", match[0], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())


def test_page_titles_match_the_navigation(staff: Client) -> None:
    for path, title, breadcrumbs in (
        ("accounts/event/", "Events", "Home / Events"),
        ("accounts/apikey/add/", "Issue a key", "Home / API keys / Issue a key"),
        ("auth/user/add/", "Add member of staff", "Home / Staff / Add member of staff"),
        ("auth/user/make-staff/", "Make a person staff", "Home / Staff / Make a person staff"),
        ("inventory/pet/import/", "Import pets", "Home / Pets / Import pets"),
        ("auth/group/1/change/", "Viewer | Roles", "Home / Roles / Viewer"),
        ("accounts/rejection/", "Rejected requests", "Rejected requests"),
    ):
        page = staff.get(f"/admin/{path}")
        match = re.search(r"<title>(.*?)</title>", page.text, re.DOTALL)
        assert match is not None
        assert " ".join(match[1].split()) == f"{title} | Pet Store"
        assert get_heading(page).startswith(breadcrumbs)


def test_breadcrumbs_of_every_page_of_a_row_end_with_the_row(
    staff: Client, account: Account, key: ApiKey, category: Category
) -> None:
    Account.objects.update(name="acme pets")  # Names keep their case.
    colleague = member_of("Viewer")
    pet = Pet.objects.create(name="rex", category=category)
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    owner = account.memberships.create(user=colleague, role="owner")
    rows: list[Any] = [Account.objects.get(), account.plan, key, colleague, pet, order]
    pages: list[tuple[Any, str, list[Any]]] = [(colleague, "password_change", [colleague.pk])]
    pages.append((order, "act", [order.pk, "cancel"]))
    pages += [(rows[0], page, [account.pk, owner.pk]) for page in ("change_role", "remove")]
    for row in rows:
        model_admin: Any = admin.site.get_model_admin(type(row))
        forms = [form for form in getattr(model_admin, "action_forms", ()) if not form.relation]
        names = {
            *(name for route, (name, _) in model_admin.pages.items() if "object_id" in route),
            *(form.verb for form in forms),
            "history",
            "change",
        }
        pages += [(row, name, [row.pk]) for name in names - {"act"}]
    for row, name, args in pages:
        url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{name}", args=args)
        assert get_heading(staff.get(url)).endswith((f"/ {row}", f"/ {capfirst(str(row))}")), url


def test_pages_show_the_environment_label(staff: Client, settings: Any) -> None:
    for label, name, value in (
        ("Local", "HTTPS", False), ("Demo", "DEMO_KEY", "psk_live_demo"), ("Production", "HTTPS", True),
        ("Staging", "ENVIRONMENT", "staging"),
    ):  # fmt: skip
        setattr(settings, name, value)
        text = re.sub(r"\s+", "", staff.get("/admin/accounts/plan/").text)
        assert re.findall(">(Local|Demo|Production|Staging)<", text) == [label]


def test_denied_page_names_the_roles_that_can_open_it(db: None) -> None:
    viewer = signed_in(member_of("Viewer"))
    for path, text in (
        ("inventory/pet/import/", "Roles that can: Owner, Stock."),
        ("auth/user/", "Roles that can: Owner."),
        ("accounts/plan/add/", "This is not possible in the back office."),
    ):
        page = viewer.get(f"/admin/{path}")
        assert (page.status_code, text in page.text, 'id="nav-sidebar"' in page.text) == (403, True, True)


def test_missing_row_is_404_with_a_link_to_the_list(staff: Client) -> None:
    unknown = staff.get("/admin/nothing/")
    assert (unknown.status_code, "This page does not exist" in unknown.text) == (404, True)
    for page in ("account/99999/change/", "account/99999/history/", "apikey/x/revoke/"):
        response = staff.get(f"/admin/accounts/{page}")
        assert response.status_code == 404
        body = response.text[response.text.index('id="content"') :]
        assert f'href="/admin/accounts/{page.split("/", maxsplit=1)[0]}/"' in body


def test_empty_list_suggests_the_next_step(staff: Client) -> None:
    for path, texts in (
        ("accounts/account/", ("There are no accounts yet.", "Add the first one")),
        ("accounts/account/?q=zebra", ("No accounts match this search.", "Show all accounts")),
        ("inventory/order/?status__exact=placed", ("match these filters.",)),
    ):
        page = staff.get(f"/admin/{path}").text
        assert all(text in page for text in texts)
        assert ("Add the first one" in page) == ("Add the first one" in texts)
