"""The pages of an account: what needs a browser, and accessibility."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.live import Service
from tests.support.thorough import some, some_pages
from tests.system.browser.conftest import PASSWORD, Open
from tests.system.browser.test_office_pages import check_both_themes, find_problems
from tests.system.browser.test_public_pages import (
    DISPLAYS,
    MIN_TARGET,
    SMALL_TARGETS,
    TARGETS,
    UNREACHABLE,
)

# A new account, one with every state of a key, a suspended one, and one with long names.
FILL = f"""
from datetime import timedelta
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.utils import timezone
from accounts.models import Account, Actor, ApiKey, DailyUsage, Membership, OperationUsage, WebhookEndpoint
from inventory.models import Order, Pet
from tests.support.customers import ban, add_rejection
by, now, password = Actor("tests"), timezone.now(), make_password({PASSWORD!r})
def add(name, *users):
    account = Account.objects.create(name=name, plan_id="business")
    for user in users:
        user, _ = User.objects.get_or_create(username=user, defaults={{"password": password}})
        Membership.objects.create(account=account, user=user, role="owner")
    return account
add("New Pets", "new")
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
for number in range(2):
    DailyUsage.objects.create(key=soon, day=now.date() - timedelta(days=number), admitted=90, rejected=9)
hour = now.timestamp() // 3600
for hours in (1, 24):
    OperationUsage.objects.create(
        account=full, hours=hours, start=hour - hour % hours, operation="GET /v1/pets", status=200,
        requests=90,
    )
pets = Pet.objects.filter(status="available").order_by("-pk")[:2]
orders = [Order.objects.place(account_id=full.pk, pet_id=pet.pk, by=f"key {{soon}}") for pet in pets]
orders[0].approve(by="staff root")
suspended.suspend(reason="Unpaid", by=by)
long = add("W" * 255, "full", "w" * 150)
long_key, _ = ApiKey.objects.issue(long, name="W" * 255, expires_at=now + timedelta(days=3), by=by)
add_rejection(long_key)
webhook = WebhookEndpoint.objects.add(full, url="https://93.184.216.34/" + "w" * 200, by=by)
webhook.rotate_secret(by=by)
for number in range(30):
    attempt = webhook.attempt_log.create(
        event_id=number, event_type="order.placed", status=503, error="status", milliseconds=1234,
        response="w" * 500, parked=number == 9, next_attempt_at=now,
    )
webhook.attempts, webhook.first_attempt_at, webhook.failing_since = 1, now, now - timedelta(hours=2)
webhook.next_attempt_at = now
webhook.save()
print(full.public_id, suspended.public_id, long.public_id, banned.public_id, orders[1].pk)
print(webhook.public_id, attempt.pk)
"""
# Names that lack the visible label (WCAG 2.5.3): people who speak to their browser say what they see.
UNNAMED = """() => [
    ...document.querySelectorAll("main :is(a:not(.anchor), button, summary)[aria-label]")
].filter(
    ({ ariaLabel, innerText }) => !ariaLabel.toLowerCase().includes(innerText.trim().toLowerCase()),
).map(({ ariaLabel }) => ariaLabel)"""


class Filled(NamedTuple):
    full: str
    suspended: str
    long_names: str
    key: str
    order: str
    webhook: str
    attempt: str

    @property
    def pages(self) -> list[str]:
        key, webhook = f"keys/{self.key}/", f"webhooks/{self.webhook}/"
        pages = [
            "", "?days=1", "keys/", "keys/issue/", key, f"{key}rotate/", f"{key}narrow/", f"{key}revoke/",
            "requests/", "requests/?q=banned-request", "requests/?q=none", "requests/?key=x", "orders/",
            f"orders/{self.order}/", "people/", "webhooks/", "webhooks/add/", webhook, f"{webhook}change/",
            f"{webhook}rotate-secret/", f"{webhook}replay/", f"{webhook}disable/", f"{webhook}remove/",
            f"{webhook}?parked", f"{webhook}attempts/{self.attempt}/",
        ]  # fmt: skip
        return [
            "/account/",
            *(f"/account/{self.full}/{page}" for page in pages),
            *(f"/account/{self.suspended}/{page}" for page in ("", "keys/")),
            *(f"/account/{self.long_names}/{page}" for page in ("", "keys/", "requests/", "people/")),
        ]


@pytest.fixture(scope="package")
def filled(shop: Service) -> Filled:
    return Filled(*shop.manage("shell", "--no-imports", "-c", FILL).split()[-7:])


@pytest.mark.parametrize("display", some(DISPLAYS, 3))
def test_account_pages_are_accessible(open_page: Open, filled: Filled, display: dict[str, bool]) -> None:
    page = open_page(as_="full", **display)
    findings = {}
    for path in some_pages(filled.pages[display["dark"] :] + filled.pages[: display["dark"]]):
        page.goto(path)
        assert path in page.url
        found = find_problems(page)
        found += page.locator(TARGETS).evaluate_all(SMALL_TARGETS, MIN_TARGET)
        found += page.evaluate(UNREACHABLE) + page.evaluate(UNNAMED)
        if found:
            findings[path] = found
    assert not findings, json.dumps(findings, indent=1)


def copy_text(page: Page, region: str) -> str:
    """Copy with the button above a region."""
    row = page.get_by_role("region", name=region, exact=True).locator("xpath=preceding-sibling::*[1]")
    row.get_by_role("button").click()
    expect(row.get_by_role("status")).to_have_text("Copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_first_key_is_issued_once_and_copied(open_page: Open, filled: Filled, shop: Service) -> None:
    page = open_page("/account/", as_="new")
    page.get_by_role("link", name="Issue a key").click()
    page.get_by_label("Name").fill("First")
    page.get_by_role("button", name="Issue a key").dblclick()
    expect(page.get_by_role("heading", name="Copy the new key now")).to_be_visible()
    key = copy_text(page, "The new key")
    with shop.client(key) as client:
        assert client.get("/pets?limit=1").status_code == 200
    command = copy_text(page, "A request with the new key")
    assert command == f"curl -H 'Authorization: Bearer {key}' '{shop.url}/v1/pets?limit=3'"
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_role("listitem").filter(has_text="First")).to_have_count(1)


def test_invitation_is_copied_and_its_pages_are_accessible(
    open_page: Open, filled: Filled, chromium: Browser
) -> None:
    owner = open_page(f"/account/{filled.full}/people/", as_="full", narrow=True)
    owner.get_by_label("Email address").fill("kim@example.com")
    owner.get_by_role("button", name="Create a link").click()
    owner.get_by_role("button", name="Copy").click()
    expect(owner.get_by_text("Copied", exact=True)).to_be_visible()
    check_both_themes(owner)
    with chromium.new_context(viewport=owner.viewport_size) as context:
        kim = context.new_page()
        kim.goto(owner.evaluate("navigator.clipboard.readText()"))
        check_both_themes(kim)


def test_chart_has_its_numbers_as_name_and_table(open_page: Open, filled: Filled) -> None:
    page = open_page(f"/account/{filled.full}/", as_="full")
    expect(page.get_by_role("img", name="Admitted 180, Rejected (429) 18")).to_be_visible()
    page.get_by_text("Numbers as a table").click()
    expect(page.get_by_role("region", name="Table: Usage in the last 30 days")).to_be_visible()


def test_theme_is_chosen_on_any_page_and_kept(open_page: Open) -> None:
    page = open_page("/docs")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_label("Theme").select_option("Dark")
    dark = page.evaluate(background)
    assert dark != light
    page.goto("/account/login/")
    assert page.evaluate(background) == dark
    expect(page.get_by_label("Theme")).to_have_value("dark")
    assert page.evaluate("localStorage.adminTheme") == '"dark"'  # As the back office stores it.
    page.get_by_label("Theme").select_option("System")
    assert page.evaluate(background) == light
