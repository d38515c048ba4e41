"""Forms: line breaks, size limits, and forms posted after session expiry."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import Account
from petstore.audit.models import AuditEntry
from petstore.backoffice.sessions import LAST_SEEN_AT
from tests.support.staff import PASSWORD, page_url

pytestmark = pytest.mark.same_on_both
LOGIN, LIST = "/account/login/", "/admin/inventory/pet/"
WARNING = "You were signed out, so your form was not saved."


def make_lines(length: int, number: int = 50) -> str:
    """Return text of this length as browsers count it."""
    text = "\n".join("x" * (length // number - 1) for _ in range(number))
    return text + "x" * (length - len(text))


def test_line_break_counts_once_and_is_stored_as_lf(staff: Client, account: Account) -> None:
    for sent_as in ("\r\n", "\n", "\r"):
        for length, status in ((5000, 302), (5001, 200)):
            notes = make_lines(length).replace("\n", sent_as)
            data = {"name": account.name, "notes": notes}
            assert staff.post(page_url(account), data).status_code == status
        account.refresh_from_db()
        assert account.notes == make_lines(5000)
    page = staff.post(page_url(account), {"name": account.name, "notes": "x" * 4_000_000})
    assert "at most 5000 characters" in page.text


URLENCODED = "application/x-www-form-urlencoded"
TOO_LARGE: dict[str, dict[str, Any]] = {
    "bytes": {"data": "notes=" + "x" * 9_000_000, "content_type": URLENCODED},
    "bytes of a field, multipart": {"data": {"notes": "x" * 9_000_000}},
    "fields": {"data": {f"field {number}": "" for number in range(1_001)}},
    "fields, urlencoded": {"data": "&".join("x" * 1_002), "content_type": URLENCODED},
}


def test_too_large_form_gets_an_error_page(staff: Client, account: Account) -> None:
    pages = [staff.post(page_url(account), **form) for form in TOO_LARGE.values()]
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
    page = sign_in(staff, staff.post(page_url(account), {"name": "New", "notes": "x" * 4_000}))
    assert page.request["PATH_INFO"] == page_url(account)
    assert WARNING in page.text
    assert WARNING not in staff.get(page_url(account)).text
    account.refresh_from_db()
    assert account.name == "Acme Pets"


def test_foreign_referer_is_not_a_redirect_target(staff: Client) -> None:
    expire_session(staff)
    for referer in ("https://elsewhere.example/x", "//elsewhere.example/x", "javascript:1", ""):
        response: Any = staff.post(LIST, {}, headers={"Referer": referer})
        assert response.url == f"{LOGIN}?next={LIST}"
