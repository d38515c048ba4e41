"""Forms: line breaks, size limits, and forms posted after session expiry."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import Account
from inventory.models import Category
from petstore.audit.models import AuditEntry
from petstore.backoffice.sessions import LAST_SEEN_AT
from tests.support.staff import PASSWORD
from tests.support.two_factor import add_app, current_code

pytestmark = pytest.mark.same_on_both
LOGIN, LIST = "/account/login/", "/admin/inventory/pet/"
WARNING = "You were signed out, so your form was not saved."


@pytest.fixture
def account(db: None) -> Account:
    return Account.objects.create(name="Acme Pets", plan_id="free")


def change_url(row: Account | Category) -> str:
    return f"/admin/{row._meta.app_label}/{row._meta.model_name}/{row.pk}/change/"


def make_lines(length: int, number: int = 50) -> str:
    """Return text of this length as browsers count it."""
    text = "\n".join("x" * (length // number - 1) for _ in range(number))
    return text + "x" * (length - len(text))


def test_line_break_counts_once_and_is_stored_as_lf(staff: Client, account: Account) -> None:
    for sent_as in ("\r\n", "\n", "\r"):
        for length, status in ((5000, 302), (5001, 200)):
            notes = make_lines(length).replace("\n", sent_as)
            data = {"name": account.name, "notes": notes}
            assert staff.post(change_url(account), data).status_code == status
        account.refresh_from_db()
        assert account.notes == make_lines(5000)
    page = staff.post(change_url(account), {"name": account.name, "notes": "x" * 4_000_000})
    assert "at most 5000 characters" in page.text


def test_description_of_a_category_has_a_limit(staff: Client, db: None) -> None:
    for length, status in ((5001, 200), (5000, 302)):
        form = {"name": "Olms", "description": "x" * length}
        assert staff.post("/admin/inventory/category/add/", form).status_code == status


def test_form_has_no_link_to_delete_a_related_row(staff: Client) -> None:
    page = staff.get("/admin/inventory/pet/add/").text
    assert ("Add another" in page, "Delete selected" in page) == (True, False)


URLENCODED = "application/x-www-form-urlencoded"
TOO_LARGE: dict[str, dict[str, Any]] = {
    "bytes": {"data": "notes=" + "x" * 9_000_000, "content_type": URLENCODED},
    "bytes of a field, multipart": {"data": {"notes": "x" * 9_000_000}},
    "fields": {"data": {f"field {number}": "" for number in range(1_001)}},
    "fields, urlencoded": {"data": "&".join("x" * 1_002), "content_type": URLENCODED},
}


def test_too_large_form_gets_an_error_page(staff: Client, account: Account) -> None:
    pages = [staff.post(change_url(account), **form) for form in TOO_LARGE.values()]
    pages.append(Client().post(LOGIN, **TOO_LARGE["bytes"]))
    for page in pages:
        assert page.status_code == 413
        assert "The form is too large and was not saved." in page.text
    assert not AuditEntry.objects.filter(action="changed").exists()


def expire_session(client: Client) -> None:
    """Let the session expire by idling."""
    session = client.session
    session[LAST_SEEN_AT] -= 3600
    session.save()


def sign_in(client: Client, response: Any) -> Any:
    """Follow a redirect to the sign-in; return the page after it."""
    assert response.status_code == 302
    assert "was not saved. Sign in to return to it." in client.get(response.url).text
    back: Any = client.post(response.url, {"login": "boss", "password": PASSWORD})
    return client.get(back.url, follow=True)


def test_form_posted_after_session_expiry_is_reported_as_not_saved(staff: Client, account: Account) -> None:
    expire_session(staff)
    page = sign_in(staff, staff.post(change_url(account), {"name": "New", "notes": "x" * 4_000}))
    assert page.request["PATH_INFO"] == change_url(account)
    assert WARNING in page.text
    assert WARNING not in staff.get(change_url(account)).text
    account.refresh_from_db()
    assert account.name == "Acme Pets"


def test_unsaved_form_warning_follows_the_code(staff: Client, boss: User, account: Account) -> None:
    secret = add_app(boss)
    expire_session(staff)
    page = sign_in(staff, staff.post(change_url(account), {"name": "New"}))
    assert page.request["PATH_INFO"] == "/account/login/code/"
    assert WARNING not in page.text
    data = {"code": current_code(secret)}
    assert WARNING in staff.post("/account/login/code/", data, follow=True).text


def test_post_only_url_leads_back_to_the_page_with_the_form(staff: Client) -> None:
    form = "/admin/inventory/pet/import/"
    expire_session(staff)
    headers = {"Referer": f"http://testserver{form}"}
    page = sign_in(staff, staff.post("/admin/inventory/pet/process_import/", headers=headers))
    assert (page.status_code, page.request["PATH_INFO"]) == (200, form)
    assert WARNING in page.text


def test_foreign_referer_is_not_a_redirect_target(staff: Client) -> None:
    expire_session(staff)
    for referer in ("https://elsewhere.example/x", "//elsewhere.example/x", "javascript:1", ""):
        response: Any = staff.post(LIST, {}, headers={"Referer": referer})
        assert response.url == f"{LOGIN}?next={LIST}"


def test_searches_and_get_requests_do_not_count_as_a_lost_form(staff: Client) -> None:
    expire_session(staff)
    fetch = staff.post("/admin/search/", {"s": "x"}, headers={"Sec-Fetch-Mode": "cors"})
    for response in (fetch, staff.post(LIST, {"q": "Bella"}), staff.get(LIST)):
        assert "login/?next=/admin/" in response["Location"]
        assert "not_saved" not in response.cookies
    assert "was not saved" not in staff.get(response["Location"]).text
