"""The pages of an account: a customer's first day, and accessibility."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.live import Service
from tests.support.thorough import some, some_pages
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
from accounts.models import Account, Actor, ApiKey, DailyUsage, Membership, OperationUsage, WebhookEndpoint
from inventory.models import Order, Pet
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
NO_KEYS = "Issue your first key."


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
        forms = [f"/account/{self.full}/keys/{self.key}/{verb}/" for verb in ("rotate", "narrow", "revoke")]
        pages = ["", "keys/", "keys/issue/", "requests/", "requests/?q=banned-request", "requests/?q=none"]
        pages += [
            "?days=1",
            f"keys/{self.key}/",
            "requests/?key=x",
            "orders/",
            f"orders/{self.order}/",
            "people/",
        ]
        verbs = ("", "change/", "rotate-secret/", "replay/", "disable/", "remove/", "?parked")
        pages += ["webhooks/", "webhooks/add/", *(f"webhooks/{self.webhook}/{verb}" for verb in verbs)]
        pages += [f"webhooks/{self.webhook}/attempts/{self.attempt}/"]
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


LABELS = """() => [
    ...document.querySelectorAll("main :is(a:not(.anchor), button, summary)[aria-label]")
].filter(
    ({ ariaLabel, innerText }) => !ariaLabel.toLowerCase().includes(innerText.trim().toLowerCase()),
).map(({ ariaLabel }) => ariaLabel)"""


def test_accessible_names_contain_the_visible_labels(open_page: Open, filled: Filled) -> None:
    """WCAG 2.5.3: people who speak to their browser say what they see."""
    page = open_page(as_="full")
    for path in filled.pages:
        page.goto(path)
        assert page.evaluate(LABELS) == []


def test_key_page_has_usage_rejections_and_history(open_page: Open, filled: Filled) -> None:
    page = open_page(f"/account/{filled.full}/keys/", as_="full")
    page.get_by_role("link", name="Banned", exact=True).click()
    expect(page.get_by_role("heading", name="Banned")).to_be_visible()
    page.get_by_role("link", name="All rejected requests of this key").click()
    expect(page.get_by_label("Key")).to_have_value(filled.key)
    page.get_by_role("rowheader", name="429 Minute limit").first.get_by_role("link").click()
    expect(page.get_by_text("What to do:").first).to_be_visible()
    page.goto(f"/account/{filled.full}/keys/{filled.key}/")
    page.get_by_role("link", name="Restrict").click()
    page.get_by_role("checkbox", name="events:read").uncheck()
    page.get_by_role("button", name="Restrict the key").click()  # Without a reason.
    expect(page.get_by_label("Reason")).to_be_focused()
    page.get_by_label("Reason").fill("No events")
    page.get_by_role("button", name="Restrict the key").click()
    expect(page.get_by_role("list", name="History")).to_contain_text("Restricted by full")
    expect(page.get_by_role("list", name="History")).to_contain_text("No events")


def test_overview_charts_periods_and_downloads_them(open_page: Open, filled: Filled) -> None:
    page = open_page(f"/account/{filled.full}/", as_="full")
    expect(page.get_by_role("img", name="Admitted 180, Rejected (429) 18")).to_be_visible()
    page.get_by_text("Numbers as a table").click()
    expect(page.get_by_role("region", name="Table: Usage in the last 30 days")).to_be_visible()
    page.get_by_role("link", name="24 hours").click()
    expect(page.get_by_role("img", name="Admitted 90")).to_be_visible()
    expect(page.get_by_role("row", name="GET /v1/pets 200 90")).to_be_visible()
    page.get_by_role("link", name="7 days").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").click()
    assert download.value.path().read_text().startswith("Day (UTC),Admitted,Rejected (429)")


def test_member_filters_rejections_and_cancels_an_order(open_page: Open, filled: Filled) -> None:
    page = open_page(f"/account/{filled.full}/requests/", as_="full")
    page.get_by_label("Reason").select_option(label="429 Ban")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.get_by_role("navigation", name="Account").get_by_role("link", name="Orders").click()
    page.get_by_role("link", name=filled.order, exact=True).click()
    page.locator("summary", has_text="Cancel").click()
    page.get_by_role("button", name=f"Cancel order {filled.order}").click()
    expect(page.get_by_role("status")).to_have_text(f"Order {filled.order} is cancelled.")
    expect(page.get_by_role("list", name="History")).to_contain_text("Cancelled by member full")


def test_sessions_end_one_by_one(open_page: Open, filled: Filled, shop: Service, plain_page: Page) -> None:
    plain_page.goto("/account/login/")
    plain_page.get_by_label("Username or email address").fill("wide")
    plain_page.get_by_label("Password").fill(PASSWORD)
    plain_page.get_by_role("button", name="Sign in", exact=True).click()
    page = open_page("/account/security/sessions/", as_="wide")
    expect(page.get_by_role("heading", name="This browser")).to_contain_text("Chrome on Linux")
    page.get_by_role("button", name=re.compile("^Sign out Chrome on Linux")).click()
    expect(page.get_by_role("status")).to_have_text("Chrome on Linux is signed out.")
    expect(page.get_by_role("button", name="Sign out all other browsers")).to_have_count(0)
    plain_page.goto("/account/security/")
    expect(plain_page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_second_factor_can_be_required_only_with_one(open_page: Open, filled: Filled) -> None:
    page = open_page(f"/account/{filled.full}/people/", as_="full")
    expect(page.get_by_text("Second factor: off")).to_be_visible()
    expect(page.get_by_role("button", name="Require a second factor")).to_have_count(0)
    page.get_by_role("link", name="Set one up for yourself first").click()
    expect(page.get_by_role("link", name="Set up an app")).to_be_visible()


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


def test_pages_work_without_scripts(filled: Filled, plain_page: Page) -> None:
    page = plain_page
    page.goto(f"/account/login/?next=/account/{filled.full}/keys/")
    page.get_by_label("Username or email address").fill("full")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="Restrict Soon").first.click()
    page.get_by_label("pets:write").uncheck()
    page.get_by_label("Reason").fill("Reads only")
    page.get_by_role("button", name="Restrict the key").click()
    expect(page.get_by_role("status").filter(has_text="has been restricted.")).to_be_visible()


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_first_day_with_a_webhook(open_page: Open, filled: Filled, *, narrow: bool) -> None:
    page = open_page("/account/", as_="narrow" if narrow else "wide", narrow=narrow)
    page.get_by_role("navigation", name="Account").get_by_role("link", name="Webhooks").click()
    page.get_by_role("link", name="Add a webhook").click()
    page.get_by_label("URL").fill("https://127.0.0.1/hook")
    page.get_by_label("Description").fill("Warehouse")
    page.get_by_role("checkbox", name="pet.created").check()
    page.get_by_role("button", name="Add a webhook").click()
    expect(page.get_by_text("Webhooks can only be sent to public addresses")).to_be_visible()
    page.get_by_label("URL").fill("https://93.184.216.34/hook")
    page.get_by_role("button", name="Add a webhook").click()
    expect(page.get_by_role("heading", name="Warehouse")).to_be_visible()
    expect(page.get_by_role("row", name="webhook.ping Pending")).to_be_visible()

    page.get_by_role("link", name="Show the secret").click()
    page.get_by_role("button", name="Show the secret").click()
    secret = copy_text(page, "The secret")
    assert secret.startswith("whsec_")
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("link", name="Rotate the secret").click()
    page.get_by_role("button", name="Rotate the secret").click()
    expect(page.get_by_text("signs as well until")).to_be_visible()

    page.get_by_role("link", name="Disable").click()
    page.get_by_role("button", name="Disable the webhook").click()
    expect(page.get_by_role("heading", name="Warehouse")).to_contain_text("Disabled")
    page.get_by_role("link", name="Enable").click()
    page.get_by_role("button", name="Enable the webhook").click()
    expect(page.get_by_role("list", name="History")).to_contain_text("Rotated the secret by")
    expect(page.get_by_role("heading", name="Warehouse")).not_to_contain_text("Disabled")


def test_attempt_shows_what_was_sent_and_sends_it_again(open_page: Open, filled: Filled) -> None:
    page = open_page(f"/account/{filled.full}/webhooks/{filled.webhook}/", as_="full")
    page.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_role("region", name="Request")).to_contain_text("webhook-id: evt_29")
    expect(page.get_by_role("region", name="Response")).to_contain_text("www")
