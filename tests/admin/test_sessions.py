"""Sessions of staff: expiry, sign-out and cookies."""

from __future__ import annotations

import time
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase

from petstore.backoffice.sessions import LAST_SEEN_AT, STARTED_AT, has_expired, touch
from tests.support.staff import PASSWORD, enter_password, is_signed_in, signed_in
from tests.unit.test_settings import setting

HOUR = 3600
LIST = "/admin/inventory/pet/"
pytestmark = pytest.mark.usefixtures("boss")


def make_session(**times: float) -> SessionBase:
    session = SessionBase()
    session.update({STARTED_AT: times["started"], LAST_SEEN_AT: times["last_seen"]})
    return session


# --- Expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("started", "last_seen", "now", "expired"),
    [
        (0, 0, HOUR - 1, False),
        (0, 0, HOUR, True),
        (0, 11.5 * HOUR, 12 * HOUR - 1, False),
        (0, 12 * HOUR - 1, 12 * HOUR, True),
    ],
)
def test_session_expires_after_an_idle_hour_and_after_12_hours(
    started: float, last_seen: float, now: float, expired: bool
) -> None:
    assert has_expired(make_session(started=started, last_seen=last_seen), now) is expired


def test_session_without_start_time_is_expired() -> None:
    assert has_expired(SessionBase(), time.time())


def test_session_is_written_at_most_once_a_minute() -> None:
    session = make_session(started=0, last_seen=0)
    session.modified = False
    touch(session, 59)
    assert not session.modified
    touch(session, 60)
    assert (session.modified, session[LAST_SEEN_AT]) == (True, 60)


@pytest.mark.parametrize("name", [STARTED_AT, LAST_SEEN_AT])
def test_expired_session_requires_a_new_sign_in(name: str) -> None:
    client = enter_password()
    assert is_signed_in(client)
    session = client.session
    session[name] -= 13 * HOUR
    session.save()
    response: Any = client.get(LIST)
    assert (response.status_code, response.url) == (302, f"/admin/login/?next={LIST}")
    assert not client.session.get("_auth_user_id")


def test_request_extends_an_idle_session(boss: User) -> None:
    client = enter_password()
    session = client.session
    session[LAST_SEEN_AT] -= HOUR / 2
    session.save()
    assert is_signed_in(client)
    assert time.time() - client.session[LAST_SEEN_AT] < HOUR / 4


# --- Signing out, and passwords ------------------------------------------------------------------


def test_signing_out_requires_post() -> None:
    client = enter_password()
    assert "Do you want to sign out" in client.get("/account/logout/").text
    assert is_signed_in(client)
    assert "You are signed out" in client.post("/account/logout/", follow=True).text
    assert not is_signed_in(client)


def test_cross_site_request_does_not_sign_out(boss: User) -> None:
    client = signed_in(boss, enforce_csrf_checks=True)
    assert client.post("/account/logout/").status_code == 403
    assert is_signed_in(client)


def test_password_change_ends_other_sessions() -> None:
    client, other = enter_password(), enter_password()
    new = "another horse, another battery"
    data = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    assert client.post("/account/password/", data).status_code == 302
    assert is_signed_in(client)
    assert not is_signed_in(other)


def test_removed_staff_status_takes_effect_at_once(boss: User) -> None:
    client = enter_password()
    User.objects.update(is_staff=False)
    assert not is_signed_in(client)


# --- Cookies -------------------------------------------------------------------------------------


def test_session_cookie_is_httponly_and_ends_with_the_browser() -> None:
    client = enter_password()
    cookie = client.cookies["sessionid"]
    assert (cookie["expires"], cookie["max-age"]) == ("", "")
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    client.get("/account/password/")
    assert client.cookies["csrftoken"]["httponly"]
    assert client.cookies["csrftoken"]["samesite"] == "Strict"


def test_https_cookies_have_the_host_prefix() -> None:
    """RFC 6265bis, section 4.1.3.2: such a name needs Secure, the path / and no Domain."""
    names = "(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE)"
    https = setting(names, BASE_URL="https://api.example.com/v1")
    assert https == "('__Host-sessionid', '__Host-csrftoken', True, True)"
    assert setting(names, BASE_URL="http://localhost/v1") == "('sessionid', 'csrftoken', False, False)"


def test_https_cookie_meets_the_rules_of_its_prefix(settings: Any) -> None:
    settings.SESSION_COOKIE_NAME, settings.SESSION_COOKIE_SECURE = "__Host-sessionid", True
    cookies: SimpleCookie = enter_password().cookies
    cookie = cookies["__Host-sessionid"]
    assert (cookie["secure"], cookie["path"], cookie["domain"]) == (True, "/", "")
