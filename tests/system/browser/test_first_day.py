"""Onboarding: sign-up in a demo, and the quickstart."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.system.browser.conftest import PASSWORD, Open
from tests.system.browser.test_office_pages import check_both_themes
from tests.system.clients.outputs import run


class Steps:
    """Counts a user's fields and clicks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)
        self.count += 1

    def click(self, name: str, role: str = "button") -> None:
        self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]
        self.count += 1


def test_new_user_gets_a_first_response_and_runs_the_quickstart(open_page: Open, tmp_path: Path) -> None:
    page = open_page("/")
    started = time.monotonic()
    steps = Steps(page)
    steps.click("Get a key", "link")
    steps.fill("Username", "newcomer")
    steps.fill("Password", PASSWORD)
    steps.fill("Confirm the password", PASSWORD)
    steps.fill("Account name", "Newcomer's Pets")
    check_both_themes(page)
    steps.click("Create the account")
    steps.click("Issue a key", "link")
    expect(page.get_by_role("group", name="Scopes")).to_be_hidden()
    steps.click("Issue a key")
    steps.click("Send it from this page")
    expect(page.get_by_text("HTTP/1.1 200")).to_be_visible()
    assert '"status": ' in page.get_by_role("region", name="The response").inner_text()
    assert time.monotonic() - started < 60
    assert steps.count == 9
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
