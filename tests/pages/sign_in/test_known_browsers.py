"""A known browser has its own limit of sign-in attempts; its cookie gives nothing else."""

from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core import signing
from django.core.management import CommandError, call_command
from django.test import Client

from petstore.api.link_header import get_page_url
from petstore.sign_in import rate_limits
from petstore.sign_in.known_browsers import KNOWN_BROWSER_AGE, get_cookie_name
from petstore.sign_in.password_links import create_link
from tests.support.isolation import Clock
from tests.support.staff import PASSWORD
from tests.support.two_factor import add_app, add_recovery_codes, current_code, get_secret

pytestmark = [pytest.mark.usefixtures("boss", "clock"), pytest.mark.same_on_both]

LOGIN, CODE, CHANGE = "/account/login/", "/account/login/code/", "/account/password/"
SET_UP, NEW = "/account/security/app/", "another horse, another battery"


def attempt(
    browser: Client | None = None, password: str = "wrong", name: str = "boss", address: str = "192.0.2.1"
) -> int:
    data = {"login": name, "password": password}
    browser = browser or Client()
    return browser.post(LOGIN, data, REMOTE_ADDR=address).status_code


def create_known_browser(name: str = "boss", password: str = PASSWORD) -> Client:
    """Return a client with the cookie but without a session, at an address of its own."""
    browser = Client()
    assert attempt(browser, password, name, "198.51.100.1") == 302
    browser.post("/account/logout/")
    return browser


def lock_out(name: str = "boss") -> None:
    """Use up the limits of the name and of one address."""
    for _ in range(10):
        attempt(name=name, address="192.0.2.1")
    assert attempt(password=PASSWORD, name=name, address="203.0.113.7") == 429


def is_recognized(browser: Client) -> bool:
    lock_out()
    return attempt(browser, PASSWORD, address="203.0.113.7") == 302


def test_wrong_passwords_from_elsewhere_do_not_lock_out_a_known_browser() -> None:
    browser = create_known_browser()
    assert browser.get("/admin/").status_code == 302  # The cookie gives no session.
    lock_out()
    places = [("192.0.2.1", "boss"), ("203.0.113.7", " boss "), ("192.0.2.1", "\uff42oss")]
    assert [attempt(browser, PASSWORD, name, address) for address, name in places] == [302] * 3


def test_known_browser_has_ten_attempts_in_five_minutes_that_count_for_no_other(clock: Clock) -> None:
    browser, other = create_known_browser(), create_known_browser()
    assert [attempt(browser) for _ in range(12)] == [200] * 10 + [429] * 2
    assert attempt(browser, PASSWORD, address="203.0.113.7") == 429
    assert attempt(other, PASSWORD) == attempt(password=PASSWORD) == 302
    clock.now += 301
    assert attempt(browser, PASSWORD) == 302


def test_browser_is_known_for_each_user_who_signed_in_there() -> None:
    User.objects.create_user("rival", password=PASSWORD, is_staff=True)
    shared, other = create_known_browser(), create_known_browser("rival")
    assert attempt(shared, PASSWORD, "rival", "198.51.100.1") == 302
    shared.post("/account/logout/")
    assert (is_recognized(shared), attempt(other, PASSWORD, address="203.0.113.7")) == (True, 429)


def test_forged_cookie_is_ignored(boss: User) -> None:
    lock_out()
    for value in ("a:b:c", "\xff:\xff:\xff", ":" * 4000):
        browser = Client()
        browser.cookies[get_cookie_name(boss)] = value
        assert attempt(browser, PASSWORD, address="203.0.113.7") == 429


def test_browser_stays_known_after_changing_the_password() -> None:
    browser, other = Client(), create_known_browser()
    attempt(browser, PASSWORD)
    data = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    assert browser.post(CHANGE, data).status_code == 302
    lock_out()
    assert attempt(other, NEW, address="203.0.113.7") == 429
    assert attempt(browser, NEW, address="203.0.113.7") == 302


@pytest.mark.parametrize(("seconds_late", "known"), [(0, True), (1, False)])
def test_known_browser_expires_after_a_year(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds_late: int, known: bool
) -> None:
    monkeypatch.setattr(signing, "time", clock)
    browser = create_known_browser()
    clock.now += KNOWN_BROWSER_AGE.total_seconds() + seconds_late
    assert is_recognized(browser) == known


def test_failed_sign_in_and_password_link_set_no_cookie(boss: User) -> None:
    browser = Client()
    attempt(browser)
    page: Any = browser.get(create_link(boss, by=boss).removeprefix(get_page_url("")[:-1]), follow=True)
    data = {"password1": PASSWORD, "password2": PASSWORD}
    assert browser.post(page.request["PATH_INFO"], data).status_code == 302
    assert get_cookie_name(boss) not in browser.cookies


@pytest.fixture
def recovery(boss: User) -> None:
    """An app of the boss, and the recovery codes `a`, `b` and so on."""
    add_app(boss)
    add_recovery_codes(boss, *"abcd")


def enter_code(browser: Client, code: str) -> int:
    return browser.post(CODE, {"code": code}).status_code


@pytest.fixture
def known_with_code(recovery: None) -> Client:
    """A known browser without a session, in which the code `a` was used."""
    browser = Client()
    attempt(browser, PASSWORD, address="198.51.100.1")
    enter_code(browser, "a")
    browser.post("/account/logout/")
    return browser


def test_cookie_is_set_after_the_code_and_hidden_from_others(boss: User, recovery: None) -> None:
    browser = Client()
    assert attempt(browser, PASSWORD) == 302
    assert get_cookie_name(boss) not in browser.cookies
    assert enter_code(browser, "a") == 302
    cookie = browser.cookies[get_cookie_name(boss)]
    assert cookie["httponly"]
    assert (cookie["samesite"], cookie["path"], cookie["domain"]) == ("Lax", "/", "")
    assert PASSWORD not in cookie.value


def set_up_app(browser: Client) -> None:
    secret = get_secret(browser.get(SET_UP))
    assert browser.post(SET_UP, {"code": current_code(secret)}).status_code == 302


@pytest.mark.parametrize("factor", ["app", "passkey"])
def test_cookies_set_before_a_second_factor_are_void(boss: User, factor: str) -> None:
    thieves, victim = [create_known_browser() for _ in range(2)], Client()
    attempt(victim, PASSWORD, address="198.51.100.2")
    if factor == "app":
        set_up_app(victim)
    else:
        Authenticator.objects.create(user=boss, type=Authenticator.Type.WEBAUTHN, data={})
    lock_out()
    assert [attempt(thief, PASSWORD) for thief in thieves] == [429] * 2


def test_browser_becomes_known_by_setting_up_a_second_factor(boss: User, settings: Any) -> None:
    settings.STAFF_TWO_FACTOR = "required"
    browser = Client()
    attempt(browser, PASSWORD, address="198.51.100.1")
    set_up_app(browser)
    browser.post("/account/logout/")
    assert is_recognized(browser)


def test_wrong_codes_after_a_stolen_password_lock_out_no_known_browser(known_with_code: Client) -> None:
    thief, other = Client(), Client()
    attempt(other, PASSWORD, address="198.51.100.2")
    attempt(thief, PASSWORD)
    for _ in range(12):
        enter_code(thief, "wrong")
    assert enter_code(other, "b") == 429
    assert attempt(known_with_code, PASSWORD) == 302
    assert enter_code(known_with_code, "b") == 302


@pytest.mark.parametrize(("daily", "allowed"), [("50/d", 9), ("3/d", 3)])
def test_known_browser_has_ten_attempts_and_a_daily_limit_of_codes(
    known_with_code: Client, monkeypatch: pytest.MonkeyPatch, daily: str, allowed: int
) -> None:
    monkeypatch.setattr(rate_limits, "CODES_PER_NAME", daily)
    assert attempt(known_with_code, PASSWORD) == 302
    statuses = [enter_code(known_with_code, "wrong") for _ in range(allowed + 1)]
    assert statuses == [200] * allowed + [429]
    assert enter_code(known_with_code, "b") == 429


def test_unlock_command_lifts_a_lockout(recovery: None) -> None:
    with pytest.raises(CommandError, match=r"'Boss'\. Names are case-sensitive"):
        call_command("unlock_sign_in", "Boss")
    browser = Client()
    attempt(browser, PASSWORD)
    for _ in range(12):
        enter_code(browser, "wrong")
    assert enter_code(browser, "a") == 429
    lock_out()
    call_command("unlock_sign_in", "\uff42\uff4f\uff53\uff53", "--json")  # Normalized, as at sign-in.
    assert enter_code(browser, "a") == 302
    assert attempt(password=PASSWORD, address="192.0.2.1") == 302
