"""Passkeys from start to finish, with the virtual authenticator of Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.support.live import Service
from tests.system.browser.conftest import PASSWORD, TIMEOUT

MAKE_USERS = f"""
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
password = make_password({PASSWORD!r})
User.objects.bulk_create(User(username=name, password=password) for name in ("pat", "kim"))
"""
SECURITY = "/account/security/"
LOGIN = f"/account/login/?next={SECURITY}"
AUTHENTICATOR = {
    "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
    "isUserVerified": True, "automaticPresenceSimulation": True,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def users(shop: Service) -> None:
    shop.manage("shell", "--no-imports", "-c", MAKE_USERS)


@pytest.fixture
def page(chromium: Browser, shop: Service, name: str) -> Iterator[Page]:
    """A page of a user who has signed in with a password."""
    problems: list[str] = []
    with chromium.new_context(base_url=shop.url) as context:
        context.set_default_timeout(TIMEOUT)
        context.on("console", lambda message: problems.append(message.text))
        context.on("weberror", lambda error: problems.append(str(error.error)))
        page = context.new_page()
        enter_password(page, name)
        page.wait_for_url(SECURITY)
        yield page
    assert problems == []


@pytest.fixture
def authenticator(page: Page) -> tuple[CDPSession, str]:
    """A device with passkeys: the session that controls it, and its ID."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    response = session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return session, response["authenticatorId"]


def enter_password(page: Page, name: str) -> None:
    page.goto(LOGIN)
    page.get_by_label("Username or email address").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def add_passkey(page: Page) -> None:
    page.goto(SECURITY)
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_role("button", name="Add the passkey").click()
    page.wait_for_url(f"{SECURITY}recovery-codes/")


def sign_out(page: Page) -> None:
    page.goto(SECURITY)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("/account/login/")
    page.goto(LOGIN)


@pytest.mark.parametrize("name", ["pat"])
@pytest.mark.usefixtures("authenticator")
def test_passkey_signs_in_alone_and_after_the_password(page: Page, name: str) -> None:
    add_passkey(page)
    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url(SECURITY)
    sign_out(page)
    enter_password(page, name)
    page.wait_for_url("/account/login/code/")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url(SECURITY)
    sign_out(page)


@pytest.mark.parametrize("name", ["kim"])
def test_page_says_that_no_passkey_was_used(page: Page, authenticator: tuple[CDPSession, str]) -> None:
    session, device = authenticator
    add_passkey(page)
    page.goto(f"{SECURITY}passkeys/add/")
    page.get_by_role("button", name="Add the passkey").click()
    expect(page.get_by_role("alert")).to_have_text("This device already has a passkey for you.")
    sign_out(page)
    session.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("No passkey was used.")
    assert page.url.endswith(LOGIN)
