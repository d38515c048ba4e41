"""The list of a person's sessions, which end one by one."""

import time
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.test import Client

from petstore.backoffice.sessions import LAST_SEEN_AT
from petstore.sign_in.browsers import describe_browser
from tests.support.staff import PASSWORD, enter_password, is_signed_in

PATH = "/account/security/sessions/"
CHROME = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
pytestmark = [pytest.mark.usefixtures("boss"), pytest.mark.same_on_both]


def test_browser_is_described_in_words() -> None:
    for user_agent, text in (
        (CHROME, "Chrome on Linux"), ("", "Unknown browser"), ("curl/<b>", "Unknown browser"),
        (f"{CHROME.replace('X11; Linux x86_64', 'Windows NT 10.0')} Edg/140.0.0.0", "Edge on Windows"),
        ("Mozilla/5.0 (Android 16; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19.0 Safari/604",
         "Safari on iPhone"),
    ):  # fmt: skip
        assert describe_browser(user_agent) == text


def sign_in_with(user_agent: str) -> Client:
    client = Client(raise_request_exception=False, headers={"user-agent": user_agent})
    client.post("/account/login/", {"login": "boss", "password": PASSWORD})
    return client


def list_sessions(client: Client) -> list[Any]:
    rows: list[Any] = client.get(PATH).context["rows"]
    return rows


def test_list_names_browser_address_and_last_use() -> None:
    client, other = enter_password(), sign_in_with(CHROME)
    session = other.session
    session[LAST_SEEN_AT] = time.time() - 600
    session.save()
    rows = list_sessions(client)
    assert [(browser, session.ip) for session, browser, _ in rows] == [
        ("Unknown browser", "127.0.0.1"), ("Chrome on Linux", "127.0.0.1"),
    ]  # fmt: skip
    assert abs(rows[1][2].timestamp() - (time.time() - 600)) < 60
    assert "Sign out Chrome on Linux" in client.get(PATH).text


def test_one_session_is_ended_or_all_others_or_the_current_one() -> None:
    client, ended, kept = enter_password(), sign_in_with(CHROME), enter_password()
    session = UserSession.objects.get(session_key=ended.session.session_key)
    page = client.post(PATH, {"session": session.pk}, follow=True)
    assert "Chrome on Linux is signed out." in page.text
    assert [is_signed_in(one) for one in (client, ended, kept)] == [True, False, True]
    assert client.post(PATH, {"session": session.pk}).status_code == 404  # A second click.
    client.post(PATH)  # All others.
    assert [is_signed_in(one) for one in (client, kept)] == [True, False]
    client.post(PATH, {"session": UserSession.objects.get().pk})
    assert not is_signed_in(client)


def test_sessions_of_others_and_unknown_ones_are_not_found(boss: User) -> None:
    kim = User.objects.create_user("kim", password=PASSWORD)
    client, other = enter_password(), Client()
    other.post("/account/login/", {"login": "kim", "password": PASSWORD})
    foreign = UserSession.objects.get(user=kim)
    for value in (foreign.pk, 0, "x", "9" * 30, ""):
        assert client.post(PATH, {"session": value}).status_code == 404
    assert UserSession.objects.filter(pk=foreign.pk).exists()


def test_expired_session_is_not_listed() -> None:
    client, old = enter_password(), sign_in_with(CHROME)
    session = old.session
    session[LAST_SEEN_AT] -= 2 * 3600
    session.save()
    assert len(list_sessions(client)) == 1
