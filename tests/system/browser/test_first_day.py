"""Onboarding: sign-up in a demo, an invitation, and the page People."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.live import Service
from tests.system.browser.conftest import PASSWORD, Open
from tests.system.browser.test_office_pages import find_problems
from tests.system.clients.outputs import run

DISPLAYS = pytest.mark.parametrize(
    "display", [{}, {"narrow": True, "dark": True}], ids=["wide light", "narrow dark"]
)

MAKE_OWNER = f"""
from django.contrib.auth.models import User
from accounts.models import Actor, open_account
user = User.objects.create_user({{name!r}}, password={PASSWORD!r})
print(open_account("Pets of {{name}}", user, by=Actor("tests")).public_id)
"""


SIGN_UP = {
    "Username": "reader",
    "Password": PASSWORD,
    "Confirm the password": PASSWORD,
    "Account name": "Reader's Pets",
}


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


def check(page: Page) -> None:
    """Check the accessibility and the width of the page, in both themes."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert find_problems(page) == [], page.url


def test_new_user_gets_a_first_response_without_a_terminal(open_page: Open) -> None:
    page = open_page("/")
    started = time.monotonic()
    steps = Steps(page)
    steps.click("Get a key", "link")
    steps.fill("Username", "newcomer")
    steps.fill("Password", PASSWORD)
    steps.fill("Confirm the password", PASSWORD)
    steps.fill("Account name", "Newcomer's Pets")
    check(page)
    steps.click("Create the account")
    steps.click("Issue a key", "link")
    steps.click("Issue a key")
    steps.click("Send it from this page")
    expect(page.get_by_text("HTTP/1.1 200")).to_be_visible()
    assert '"status": ' in page.get_by_role("region", name="The response").inner_text()
    assert time.monotonic() - started < 60
    assert steps.count == 9
    check(page)


def test_first_key_with_the_defaults_runs_every_line_of_the_quickstart(
    open_page: Open, tmp_path: Path
) -> None:
    page = open_page("/account/sign-up/")
    for label, text in SIGN_UP.items():
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_role("button", name="Create the account").click()
    page.get_by_role("link", name="Issue a key").click()
    expect(page.get_by_role("group", name="Scopes")).to_be_hidden()
    check(page)
    page.get_by_role("button", name="Issue a key").click()
    key = page.locator("#key-text").inner_text()
    page.goto("/docs/quickstart")
    expect(page.get_by_role("link", name="Reader's Pets").first).to_be_visible()
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
        folder = tmp_path / re.sub(r"(client)?.*\.", r"\1.", name)  # Steps share the folder of their tab.
        folder.mkdir(exist_ok=True)
        run(name, code, variable, folder)


@DISPLAYS
def test_invited_colleague_joins_and_is_removed(
    shop: Service, open_page: Open, chromium: Browser, display: dict[str, bool]
) -> None:
    owner_name, name = ("owner-n", "kim-n") if display else ("owner-w", "kim-w")
    account = shop.manage("shell", "--no-imports", "-c", MAKE_OWNER.format(name=owner_name)).strip()
    owner = open_page(f"/account/login/?next=/account/{account}/people/", **display)
    owner.get_by_label("Username or email address").fill(owner_name)
    owner.get_by_label("Password").fill(PASSWORD)
    owner.get_by_role("button", name="Sign in", exact=True).click()
    owner.get_by_label("Email address").fill("kim@example.com")
    check(owner)
    owner.get_by_role("button", name="Create a link").click()
    owner.get_by_role("button", name="Copy").click()
    expect(owner.get_by_text("Copied", exact=True)).to_be_visible()
    check(owner)
    link = owner.evaluate("navigator.clipboard.readText()")
    owner.get_by_role("link", name="I have copied it").click()
    expect(owner.get_by_role("heading", name="kim@example.com")).to_be_visible()
    check(owner)

    with chromium.new_context(viewport=owner.viewport_size) as context:
        kim = context.new_page()
        kim.goto(link)
        check(kim)
        kim.get_by_label("Username").fill(name)
        kim.get_by_label("Password", exact=True).fill(PASSWORD)
        kim.get_by_label("Confirm the password").fill(PASSWORD)
        kim.get_by_role("button", name="Join").click()
        expect(kim.get_by_role("heading", name="Overview")).to_be_visible()
        expect(kim.get_by_text("You have joined")).to_be_visible()
        kim.get_by_role("link", name="People").click()
        expect(kim.get_by_role("heading", name=f"{name} (you)")).to_be_visible()
        expect(kim.get_by_role("button", name="Create a link")).to_have_count(0)
        check(kim)

        owner.reload()
        owner.get_by_label(f"Role of {name}", exact=True).select_option("Account reader")
        owner.get_by_role("button", name=f"Change role of {name}").click()
        expect(owner.get_by_text("The role is changed.")).to_be_visible()
        owner.locator("summary", has_text="Remove").click()
        check(owner)
        owner.get_by_role("button", name=f"Remove {name}").click()
        expect(owner.get_by_text("The member is removed.")).to_be_visible()
        expect(owner.get_by_role("heading", name=name)).to_have_count(0)
        response = kim.reload()
        assert response is not None
        assert response.status == 404
