"""Sessions of staff: expiry, sign-out and cookies."""

import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase

from petstore.backoffice.sessions import LAST_SEEN_AT, STARTED_AT, has_expired, touch
from tests.support.staff import enter_password, is_signed_in, signed_in
from tests.unit.test_settings import setting

HOUR = 3600
LIST = "/admin/inventory/pet/"
pytestmark = [pytest.mark.usefixtures("boss"), pytest.mark.same_on_both]


def make_session(**times: float) -> SessionBase:
    session = SessionBase()
    session.update({STARTED_AT: times["started"], LAST_SEEN_AT: times["last_seen"]})
    return session


def test_session_expires_after_an_idle_hour_and_after_12_hours() -> None:
    for last_seen, now, expired in (
        (0, HOUR - 1, False),
        (0, HOUR, True),
        (11.5 * HOUR, 12 * HOUR - 1, False),
        (12 * HOUR - 1, 12 * HOUR, True),
    ):
        assert has_expired(make_session(started=0, last_seen=last_seen), now) is expired
    assert has_expired(SessionBase(), time.time())  # Without a start time.


def test_session_is_written_at_most_once_a_minute() -> None:
    session = make_session(started=0, last_seen=0)
    session.modified = False
    touch(session, 59)
    assert not session.modified
    touch(session, 60)
    assert (session.modified, session[LAST_SEEN_AT]) == (True, 60)


def test_expired_session_requires_a_new_sign_in() -> None:
    client = enter_password()
    assert is_signed_in(client)
    session = client.session
    session[STARTED_AT] -= 13 * HOUR
    session.save()
    response: Any = client.get(LIST)
    assert (response.status_code, response.url) == (302, f"/admin/login/?next={LIST}")
    assert not client.session.get("_auth_user_id")


def test_request_extends_an_idle_session() -> None:
    client = enter_password()
    session = client.session
    session[LAST_SEEN_AT] -= HOUR / 2
    session.save()
    assert is_signed_in(client)
    assert time.time() - client.session[LAST_SEEN_AT] < HOUR / 4


def test_signing_out_requires_a_post_from_this_site(boss: User) -> None:
    client = signed_in(boss, enforce_csrf_checks=True)
    assert "Do you want to sign out" in client.get("/account/logout/").text
    assert client.post("/account/logout/").status_code == 403
    assert is_signed_in(client)
    client.handler.enforce_csrf_checks = False
    assert "You are signed out" in client.post("/account/logout/", follow=True).text
    assert not is_signed_in(client)


def test_sessions_that_a_new_secret_key_has_signed_end_with_all_others(settings: Any) -> None:
    other, client = enter_password(), enter_password()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new" * 20, [settings.SECRET_KEY]
    assert is_signed_in(other)  # Django signs the session again, and changes its key.
    client.post("/account/security/sessions/")
    assert (is_signed_in(other), is_signed_in(client)) == (False, True)


def test_signing_in_after_the_secret_key_has_changed_ends_no_other_session(settings: Any) -> None:
    other = enter_password()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new" * 20, [settings.SECRET_KEY]
    assert is_signed_in(enter_password())  # django-allauth checks the other session.
    assert is_signed_in(other)


def test_session_cookie_is_httponly_and_ends_with_the_browser() -> None:
    client = enter_password()
    cookie = client.cookies["sessionid"]
    assert (cookie["expires"], cookie["max-age"], cookie["samesite"]) == ("", "", "Lax")
    client.get("/account/password/")
    assert client.cookies["csrftoken"]["samesite"] == "Strict"
    assert all(client.cookies[name]["httponly"] for name in ("sessionid", "csrftoken"))


def test_https_cookies_have_the_host_prefix() -> None:
    """RFC 6265bis, section 4.1.3.2: such a name needs Secure, the path / and no Domain."""
    names = "(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE)"
    https = setting(names, BASE_URL="https://api.example.com/v1")
    assert https == "('__Host-sessionid', '__Host-csrftoken', True, True)"
    assert setting(names, BASE_URL="http://localhost/v1") == "('sessionid', 'csrftoken', False, False)"
