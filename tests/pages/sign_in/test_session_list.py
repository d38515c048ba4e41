"""The list of a person's sessions, which end one by one."""

from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.test import Client

from petstore.backoffice.sessions import LAST_SEEN_AT
from tests.support.staff import PASSWORD, enter_password, is_signed_in

PATH = "/account/security/sessions/"
CHROME = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
pytestmark = [pytest.mark.usefixtures("boss"), pytest.mark.same_on_both]


def sign_in_with(user_agent: str) -> Client:
    client = Client(raise_request_exception=False, headers={"user-agent": user_agent})
    client.post("/account/login/", {"login": "boss", "password": PASSWORD})
    return client


def list_sessions(client: Client) -> list[Any]:
    rows: list[Any] = client.get(PATH).context["rows"]
    return rows


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
