"""The pages of an account: a customer's first day, and accessibility."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.live import Service
from tests.support.thorough import some
from tests.system.browser.conftest import PASSWORD, Open
from tests.system.browser.test_office_pages import find_problems
from tests.system.browser.test_public_pages import (
    DISPLAYS,
    MIN_TARGET,
    SMALL_TARGETS,
    TARGETS,
    UNREACHABLE,
)

# A new account for each width, an account with every state of a key, and a suspended one.
FILL = f"""
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from accounts.models import Account, Actor, ApiKey, Membership
from tests.support.customers import ban, add_rejection
by, now = Actor("tests"), timezone.now()
def add(name, *users):
    account = Account.objects.create(name=name, plan_id="business")
    for user in users:
        user, _ = User.objects.get_or_create(username=user)
        user.set_password({PASSWORD!r})
        user.save()
        Membership.objects.create(account=account, user=user, role="owner")
    return account
wide, narrow = add("Wide Pets", "wide"), add("Narrow Pets", "narrow")
full, suspended = add("Full Pets", "full"), add("Unpaid Pets", "full")
soon, banned, gone = (
    ApiKey.objects.issue(full, name=name, expires_at=end, allowed_networks=["203.0.113.0/24"], by=by)[0]
    for name, end in (("Soon", now + timedelta(days=3)), ("Banned", None), ("", None))
)
gone.revoke(reason="Leaked", by=by)
soon.rotate(by=by)
ban(banned)
add_rejection(
    banned, request_id="banned-request", reason="api_key_banned", ban_ends_at=now, address="192.0.2.1"
)
for number in range(30):
    add_rejection(banned, request_id=f"request-{{number}}")
suspended.suspend(reason="Unpaid", by=by)
long = add("W" * 255, "full", "w" * 150)
long_key, _ = ApiKey.objects.issue(long, name="W" * 255, expires_at=now + timedelta(days=3), by=by)
add_rejection(long_key)
print(full.public_id, suspended.public_id, long.public_id, banned.public_id)
"""
NO_KEYS = "Issue your first key."


class Filled(NamedTuple):
    full: str
    suspended: str
    long_names: str
    key: str

    @property
    def pages(self) -> list[str]:
        forms = [f"/account/{self.full}/keys/{self.key}/{verb}/" for verb in ("rotate", "narrow", "revoke")]
        pages = ["", "keys/", "keys/issue/", "requests/", "requests/?q=banned-request", "requests/?q=none"]
        paths = [f"/account/{self.full}/{page}" for page in pages]
        return [
            "/account/",
            *paths,
            *forms,
            f"/account/{self.suspended}/",
            f"/account/{self.suspended}/keys/",
            *(f"/account/{self.long_names}/{page}" for page in ("", "keys/", "requests/", "people/")),
        ]


@pytest.fixture(scope="package")
def filled(shop: Service) -> Filled:
    return Filled(*shop.manage("shell", "--no-imports", "-c", FILL).split()[-4:])


@pytest.mark.parametrize("display", some(DISPLAYS, 3))
def test_account_pages_are_accessible(open_page: Open, filled: Filled, display: dict[str, bool]) -> None:
    page = open_page(as_="full", **display)
    findings = {}
    # Outside CI, each in one theme.
    for path in some(filled.pages[display["dark"] :] + filled.pages[: display["dark"]], 2):
        page.goto(path)
        assert path in page.url
        found = find_problems(page)
        found += page.locator(TARGETS).evaluate_all(SMALL_TARGETS, MIN_TARGET)
        found += page.evaluate(UNREACHABLE)
        if found:
            findings[path] = found
    assert not findings, json.dumps(findings, indent=1)


def copy_text(page: Page, region: str) -> str:
    """Copy with the button above a region."""
    row = page.get_by_role("region", name=region, exact=True).locator("xpath=preceding-sibling::*[1]")
    row.get_by_role("button").click()
    expect(row.get_by_role("status")).to_have_text("Copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def call(key: str, shop: Service) -> httpx.Response:
    return httpx.get(f"{shop.url}/v1/pets?limit=1", headers={"Authorization": f"Bearer {key}"})


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_first_day_with_keys(open_page: Open, filled: Filled, shop: Service, *, narrow: bool) -> None:
    page = open_page("/account/", as_="narrow" if narrow else "wide", narrow=narrow)
    expect(page.get_by_text(NO_KEYS)).to_be_visible()
    page.get_by_role("link", name="Issue a key").click()
    page.get_by_label("Name").fill("First")
    page.get_by_role("button", name="Issue a key").dblclick()  # Issues one key.
    expect(page.get_by_role("heading", name="Copy the new key now")).to_be_visible()
    assert not find_problems(page)
    key = copy_text(page, "The new key")
    assert call(key, shop).status_code == 200
    command = copy_text(page, "A request with the new key")
    assert command == f"curl -H 'Authorization: Bearer {key}' '{shop.url}/v1/pets?limit=3'"
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_role("listitem").filter(has_text="First")).to_have_count(1)

    page.get_by_role("navigation", name="Account").get_by_role("link", name="Overview").click()
    expect(page.get_by_role("row", name=re.compile("^Minute 1 of 1,000"))).to_be_visible()

    page.get_by_role("navigation", name="Account").get_by_role("link", name="Keys").click()
    page.get_by_role("link", name="Rotate First").click()
    page.get_by_role("button", name="Rotate the key").click()
    new_key = copy_text(page, "The new key")
    assert [call(text, shop).status_code for text in (key, new_key)] == [200, 200]
    page.get_by_role("link", name="I have copied it").click()

    old_id = key.split("_")[2]
    page.get_by_role("link", name=f"Revoke First {old_id}").click()
    page.get_by_label("Reason").fill("Replaced")
    page.get_by_role("button", name="Revoke the key").click()
    expect(page.get_by_role("status").filter(has_text=f"Key {old_id} has been revoked.")).to_be_visible()
    response = call(key, shop)
    assert (response.status_code, call(new_key, shop).status_code) == (401, 200)

    page.get_by_role("navigation", name="Account").get_by_role("link", name="Requests").click()
    request_id = response.headers["X-Request-Id"]
    for _ in range(30):  # The log is written within ten seconds.
        page.get_by_label("Request ID").fill(request_id)
        page.get_by_role("button", name="Explain").click()
        if page.get_by_role("heading", name="The key was revoked.").is_visible():
            break
        page.wait_for_timeout(500)
    expect(page.get_by_role("heading", name="The key was revoked.")).to_be_visible()


def test_pages_work_without_scripts(filled: Filled, plain_page: Page) -> None:
    page = plain_page
    page.goto(f"/account/login/?next=/account/{filled.full}/keys/")
    page.get_by_label("Username or email address").fill("full")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="Narrow Soon").first.click()
    page.get_by_label("pets:write").uncheck()
    page.get_by_label("Reason").fill("Reads only")
    page.get_by_role("button", name="Narrow the key").click()
    expect(page.get_by_role("status").filter(has_text="has been narrowed.")).to_be_visible()
