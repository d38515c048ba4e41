"""The number of clicks that daily tasks take from the home page."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.live import Service
from tests.system.browser.conftest import Open
from tests.system.browser.test_daily_work import BAN, get, press, wait_for_rejection

COUNT = (
    "addEventListener('pointerdown', () => sessionStorage.clicks = +(sessionStorage.clicks ?? 0) + 1, true)"
)


@pytest.fixture
def home(open_page: Open) -> Iterator[Callable[[], Page]]:
    """Open the home page of Support in a browser that counts clicks."""
    with open_page(as_="support").add_init_script(COUNT):
        yield lambda: open_page("/admin/", as_="support")


def count_clicks(page: Page) -> int:
    return int(page.evaluate("sessionStorage.clicks"))


def test_ban_is_lifted_with_two_clicks(shop: Service, home: Callable[[], Page]) -> None:
    issued = shop.issue("Two Clicks", "free")
    shop.manage("shell", "--no-imports", "-c", BAN.format(public_id=issued["id"]))
    page = home()
    page.get_by_role("link", name=f"Lift the ban on {issued['id']}").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("They have fixed their loop")
    press(page, "Lift the ban")
    expect(page.get_by_text("has been lifted").first).to_be_visible()
    assert get(shop, issued["key"]).status_code == 200
    assert count_clicks(page) == 2


def test_rejection_is_found_without_its_id_with_two_clicks(shop: Service, home: Callable[[], Page]) -> None:
    issued = shop.issue("Curious Clicks", "free")
    shop.manage("revoke_key", issued["id"], "--reason", "Leaked")
    rejected = get(shop, issued["key"])
    assert rejected.status_code == 401
    wait_for_rejection(shop, rejected)
    page = home()
    page.get_by_role("link", name="Why refused?").first.click()
    expect(page.get_by_label("Request ID, key or account")).to_be_focused()
    page.keyboard.type(issued["key"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/?q={issued['id']}*")
    page.get_by_role("link", name="Revoked key").first.click()
    expect(page.get_by_text("The key was revoked.")).to_be_visible()
    assert count_clicks(page) == 2


def test_key_is_issued_with_three_clicks(shop: Service, home: Callable[[], Page]) -> None:
    shop.issue("Three Clicks", "free")
    page = home()
    page.get_by_role("link", name=re.compile("Accounts$")).first.click()
    page.get_by_role("link", name="Issue a key: Three Clicks").click()
    press(page, "Issue the key")
    key = page.get_by_label("The new key", exact=True).inner_text()
    assert get(shop, key).status_code == 200
    assert count_clicks(page) == 3


def test_plan_is_changed_with_three_clicks_and_a_reason(shop: Service, home: Callable[[], Page]) -> None:
    issued = shop.issue("Larger Plan", "free")
    page = home()
    page.get_by_role("link", name=re.compile("Accounts$")).first.click()
    page.get_by_role("link", name="Change the plan: Larger Plan").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("They grow")
    page.get_by_role("button", name="Move to Pro 300 per minute, 10,000 per day").click()
    expect(page.get_by_text("They grow").first).to_be_visible()
    assert get(shop, issued["key"]).headers["X-RateLimit-Limit"] == "300"
    assert count_clicks(page) == 3


PLACE_ORDERS = """
from accounts.models import Account
from inventory.models import Order, Pet
pets = Pet.objects.filter(status="available", orders=None)[:{count}]
for pet in pets:
    Order.objects.place(account_id=Account.objects.first().pk, pet_id=pet.pk, by="tests")
"""


@pytest.fixture
def stock_home(open_page: Open) -> Iterator[Page]:
    """The home page of Stock in a browser that counts clicks."""
    with open_page(as_="stock").add_init_script(COUNT):
        yield open_page("/admin/", as_="stock")


def test_order_is_delivered_with_three_clicks(shop: Service, stock_home: Page) -> None:
    shop.issue("Delivered Clicks", "free")
    shop.manage("shell", "--no-imports", "-c", PLACE_ORDERS.format(count=1))
    page = stock_home
    page.reload()
    approve = page.get_by_role("button", name="Approve: order").first
    order = (approve.get_attribute("aria-label") or "").removeprefix("Approve: ")
    approve.click()
    page.get_by_role("button", name=f"Ship now: {order}").click()
    page.get_by_role("button", name=f"Deliver: {order}").click()
    expect(page.get_by_text(f"{order.capitalize()} is delivered.")).to_be_visible()
    assert count_clicks(page) == 3


def test_order_is_returned_with_three_clicks(shop: Service, stock_home: Page) -> None:
    shop.issue("Returned Clicks", "free")
    deliver = (
        "    order = Order.objects.latest('id'); order.approve(by='tests'); order.deliver(by='tests')\n"
    )
    shop.manage("shell", "--no-imports", "-c", PLACE_ORDERS.format(count=1) + deliver)
    page = stock_home
    page.get_by_role("link", name=re.compile("Orders$")).first.click()
    link = page.get_by_role("link", name="Return... order").first
    order = (link.get_attribute("aria-label") or "").removeprefix("Return... ")
    link.click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("The buyer is allergic")
    press(page, f"Return {order}")
    expect(page.get_by_text(f"{order.capitalize()} is returned.")).to_be_visible()
    assert page.url.endswith("/admin/inventory/order/")
    assert count_clicks(page) == 3


def test_new_customer_gets_a_key_with_five_clicks(shop: Service, home: Callable[[], Page]) -> None:
    page = home()
    page.get_by_role("link", name=re.compile("Accounts$")).first.click()
    page.locator(".addlink").click()
    page.get_by_label("Name").focus()
    page.keyboard.type("Five Clicks")
    page.get_by_label("Plan").focus()
    page.keyboard.type("Free")
    press(page, "Save")
    page.get_by_role("link", name="Issue the first one").click()
    press(page, "Issue the key")
    key = page.get_by_label("The new key", exact=True).inner_text()
    assert get(shop, key).headers["X-RateLimit-Limit"] == "60"
    assert count_clicks(page) == 5


def test_key_is_rotated_with_three_clicks(shop: Service, home: Callable[[], Page]) -> None:
    issued = shop.issue("Rotating Clicks", "free")
    page = home()
    page.get_by_role("link", name=re.compile("API keys$")).first.click()
    page.get_by_role("link", name=f"Rotate: {issued['id']}").click()
    press(page, "Rotate the key")
    key = page.get_by_label("The new key", exact=True).inner_text()
    assert get(shop, key).status_code == 200
    assert count_clicks(page) == 3


def test_key_is_revoked_with_three_clicks_and_a_reason(shop: Service, home: Callable[[], Page]) -> None:
    issued = shop.issue("Revoking Clicks", "free")
    page = home()
    page.get_by_role("link", name=re.compile("API keys$")).first.click()
    page.get_by_role("link", name=f"Revoke: {issued['id']}").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("Leaked")
    press(page, "Revoke the key")
    expect(page.get_by_text("has been revoked").first).to_be_visible()
    assert get(shop, issued["key"]).status_code == 401
    assert count_clicks(page) == 3


def test_account_is_suspended_with_two_clicks_and_a_reason(shop: Service, home: Callable[[], Page]) -> None:
    issued = shop.issue("Suspending Clicks", "free")
    page = home()
    page.get_by_role("link", name=re.compile("Accounts$")).first.click()
    page.get_by_role("link", name="Suspend: Suspending Clicks").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("Unpaid")
    page.keyboard.press("Enter")
    expect(page.get_by_text("has been suspended").first).to_be_visible()
    assert get(shop, issued["key"]).status_code == 403
    assert count_clicks(page) == 2
