"""Two hours after the last password, code or passkey, security pages ask for one of them again."""

import time
from typing import Any
from urllib.parse import quote

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.test import Client

from tests.support.staff import PASSWORD

HOURS = 2 * 60 * 60
LOGIN, CONFIRM, SECURITY = "/account/login/", "/account/confirm/", "/account/security/"
PAGES = (
    f"{SECURITY}app/", f"{SECURITY}recovery-codes/new/", f"{SECURITY}passkeys/add/",
    f"{SECURITY}passkeys/1/", f"{SECURITY}passkeys/1/remove/", "/account/email/", f"{SECURITY}sessions/",
)  # fmt: skip
pytestmark = [pytest.mark.usefixtures("boss"), pytest.mark.same_on_both]


def sign_in(client: Client | None = None, *, seconds_ago: float = 0) -> Client:
    client = client or Client()
    client.post(LOGIN, {"login": "boss", "password": PASSWORD})
    session = client.session
    session["account_authentication_methods"][-1]["at"] = time.time() - seconds_ago
    session.save()
    return client


def test_old_sign_in_leads_to_the_confirmation_and_back() -> None:
    client = sign_in(seconds_ago=HOURS)
    for page in PAGES:
        assert client.get(page)["Location"] == f"{CONFIRM}?next={quote(page)}"
        response: Any = client.post(page)
        assert response.url == f"{CONFIRM}?next={quote(page)}"
    response = client.post(response.url, {"password": PASSWORD, "next": page})
    assert response.url == page
    assert sign_in(seconds_ago=HOURS - 60).get(PAGES[0]).status_code == 200


@pytest.mark.parametrize("verified", [True, False])
def test_person_with_an_address_confirms_with_the_password(verified: bool) -> None:
    User.objects.update(email="boss@example.com")
    address = {"email": "boss@example.com", "verified": verified, "primary": True}
    EmailAddress.objects.create(user=User.objects.get(), **address)
    client = sign_in(seconds_ago=HOURS)
    assert client.get(PAGES[0])["Location"] == f"{CONFIRM}?next={quote(PAGES[0])}"
    assert client.get(CONFIRM).status_code == 200
    assert client.post(CONFIRM, {"password": PASSWORD, "next": PAGES[0]})["Location"] == PAGES[0]
    assert client.get(PAGES[0]).status_code == 200


def test_form_is_not_stored_for_the_next_user() -> None:
    form = {"action_add": "", "email": "thief@example.com", "password": "secret"}
    client, old = Client(), sign_in(seconds_ago=HOURS)
    for page in PAGES:
        client.post(page, form)
        assert not client.session.keys()
        old.post(page, form)
        assert "secret" not in repr(dict(old.session))
    old.post(CONFIRM, {"password": PASSWORD, "next": "/account/email/"})
    assert not EmailAddress.objects.exists()


@pytest.mark.parametrize("page", [LOGIN, CONFIRM, "/account/logout/"])
def test_next_leads_to_no_other_site(page: str) -> None:
    for url in ("//evil.example", "/\\evil.example", "https:evil.example", "javascript:evil", "\t//evil"):
        client = Client() if page == LOGIN else sign_in()
        response: Any = client.post(page, {"login": "boss", "password": PASSWORD, "next": url})
        assert response.status_code == 302
        assert "evil" not in response.url
    for url in ("\0", "x" * 100_000):
        client = Client(raise_request_exception=False)
        assert client.get(page, {"next": url}).status_code in {200, 302, 400}
        assert client.post(page, {"next": url}).status_code in {200, 302, 400}


def test_record_of_one_user_does_not_count_for_another() -> None:
    User.objects.create_user("rival", password=PASSWORD)
    client = sign_in()
    session = client.session
    session["account_authentication_methods_user"] = str(User.objects.get(username="rival").pk)
    session.save()
    assert client.get(PAGES[0]).status_code == 302
