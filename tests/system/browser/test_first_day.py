"""Onboarding: sign-up in a demo."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.system.browser.conftest import PASSWORD, Open
from tests.system.browser.test_office_pages import check_both_themes


def test_new_user_gets_a_first_response(open_page: Open) -> None:
    page = open_page("/")
    page.get_by_role("link", name="Get a key", exact=True).first.click()
    fields = ("Username", "Password", "Confirm the password", "Account name")
    for label, text in zip(fields, ("newcomer", PASSWORD, PASSWORD, "Newcomer's Pets"), strict=True):
        page.get_by_label(label, exact=True).fill(text)
    check_both_themes(page)
    page.get_by_role("button", name="Create the account").click()
    page.get_by_role("link", name="Issue a key", exact=True).first.click()
    expect(page.get_by_role("group", name="Scopes")).to_be_hidden()
    page.get_by_role("button", name="Issue a key").click()
    page.get_by_role("button", name="Send it from this page").click()
    expect(page.get_by_text("HTTP/1.1 200")).to_be_visible()
    assert '"status": ' in page.get_by_role("region", name="The response").inner_text()
    check_both_themes(page)
