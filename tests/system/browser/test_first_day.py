"""Onboarding: sign-up in a demo, and the quickstart."""

from __future__ import annotations

import subprocess
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.system.browser.conftest import PASSWORD, Open
from tests.system.browser.test_office_pages import check_both_themes
from tests.system.clients.outputs import run


def test_new_user_gets_a_first_response_and_runs_the_quickstart(open_page: Open, tmp_path: Path) -> None:
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
    run_quickstart(page, page.locator("#key-text").inner_text(), tmp_path)


def run_quickstart(page: Page, key: str, folder: Path) -> None:
    """Run each line of the page for curl; tests/system/clients runs the programs in other languages."""
    page.goto("/docs/quickstart")
    expect(page.get_by_role("link", name="Newcomer's Pets").first).to_be_visible()
    printed = page.locator("main pre > code[id]").evaluate_all(
        "all => all.map((one) => [one.id, one.textContent])"
    )
    (_, set_key), *programs = [(name, code) for name, code in printed if not name.startswith("install-")]
    line = set_key.replace("psk_live_YOUR_KEY", key)
    variable = subprocess.check_output(["sh", "-c", f'{line}; printf %s "$PETSTORE_KEY"'], text=True)
    assert [name.partition(".")[0].removeprefix("client_") for name, _ in programs] == [
        step for step in ("first_call", "place_order", "cancel_order") for _ in range(len(programs) // 3)
    ]
    for name, code in programs:
        if name.endswith(".sh"):
            run(name, code, variable, folder)
