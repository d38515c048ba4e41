"""Two hours after the last password, code or passkey, security pages ask for one of them again."""

from __future__ import annotations

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
pytestmark = pytest.mark.usefixtures("boss")


def sign_in(client: Client | None = None, *, seconds_ago: float = 0) -> Client:
    client = client or Client()
    client.post(LOGIN, {"login": "boss", "password": PASSWORD})
    session = client.session
    session["account_authentication_methods"][-1]["at"] = time.time() - seconds_ago
    session.save()
    return client


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_old_sign_in_leads_to_the_confirmation_and_back(page: str, method: str) -> None:
    client = sign_in(seconds_ago=HOURS)
    response: Any = getattr(client, method)(page)
    assert response.url == f"{CONFIRM}?next={quote(page)}"
    response = client.post(response.url, {"password": PASSWORD, "next": page})
    assert response.url == page


def test_recent_sign_in_suffices() -> None:
    assert sign_in(seconds_ago=HOURS - 60).get(PAGES[0]).status_code == 200


@pytest.mark.parametrize("page", PAGES)
def test_form_is_not_stored_for_the_next_user(page: str) -> None:
    client = Client()
    client.post(page, {"action_add": "", "email": "thief@example.com", "password": "secret"})
    assert not client.session.keys()
    sign_in(client, seconds_ago=HOURS)
    client.post(page, {"action_add": "", "email": "thief@example.com", "password": "secret"})
    assert "secret" not in repr(dict(client.session))
    client.post(CONFIRM, {"password": PASSWORD, "next": page})
    assert not EmailAddress.objects.exists()


@pytest.mark.parametrize(
    "url", ["//evil.example", "/\\evil.example", "https:evil.example", "http:///evil.example", "\t//evil"]
)
@pytest.mark.parametrize("page", [LOGIN, CONFIRM, "/account/logout/"])
def test_next_leads_to_no_other_site(page: str, url: str) -> None:
    client = Client() if page == LOGIN else sign_in()
    response: Any = client.post(page, {"login": "boss", "password": PASSWORD, "next": url})
    assert response.status_code == 302
    assert "evil" not in response.url


def test_record_of_one_user_does_not_count_for_another() -> None:
    User.objects.create_user("rival", password=PASSWORD)
    client = sign_in()
    session = client.session
    session["account_authentication_methods_user"] = str(User.objects.get(username="rival").pk)
    session.save()
    assert client.get(PAGES[0]).status_code == 302
