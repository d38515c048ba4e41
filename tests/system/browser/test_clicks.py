"""The number of clicks that daily tasks take from the home page."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from playwright.sync_api import Page, expect

from tests.support.live import Service
from tests.system.browser.conftest import Open
from tests.system.browser.test_daily_work import BAN, add_rejection, get, press

COUNT = (
    "addEventListener('pointerdown', () => sessionStorage.clicks = +(sessionStorage.clicks ?? 0) + 1, true)"
)
PLACE_ORDER = """
from accounts.models import Account
from inventory.models import Order, Pet
pet = Pet.objects.filter(status="available", orders=None).first()
order = Order.objects.place(account_id=Account.objects.first().pk, pet_id=pet.pk, by="tests")
"""
CountClicks = Callable[..., AbstractContextManager[Page]]


@pytest.fixture
def clicks(open_page: Open) -> CountClicks:
    """A context manager that yields the home page of a user, and checks the number of clicks from there."""

    @contextmanager
    def count(expected: int, as_: str = "support") -> Iterator[Page]:
        with open_page(as_=as_).add_init_script(COUNT):
            page = open_page("/admin/", as_=as_)
            yield page
            assert int(page.evaluate("sessionStorage.clicks")) == expected

    return count


def follow(page: Page, *names: str) -> None:
    """Click links in turn. A list's name may have an icon before it."""
    for name in names:
        page.get_by_role("link", name=re.compile(rf"{re.escape(name)}$")).first.click()


def give_reason(page: Page, reason: str) -> None:
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type(reason)


@pytest.mark.parametrize(
    ("links", "button", "message", "status"),
    [
        (["Lift the ban on {id}"], "Lift the ban", "has been lifted", 200),
        (["Accounts", "Suspend: {account}"], "", "has been suspended", 403),
    ],
)
def test_key_or_account_is_handled_with_a_click_for_each_link_and_a_reason(
    shop: Service, clicks: CountClicks, links: list[str], button: str, message: str, *, status: int
) -> None:
    issued = shop.issue(f"Clicks {status}", "free")
    if len(links) == 1:
        shop.manage("shell", "--no-imports", "-c", BAN.format(public_id=issued["id"]))
    with clicks(len(links) + bool(button)) as page:
        follow(page, *(link.format(**issued) for link in links))
        give_reason(page, "They have fixed their loop")
        if button:
            press(page, button)
        else:
            page.keyboard.press("Enter")
        expect(page.get_by_text(message).first).to_be_visible()
    assert get(shop, issued["key"]).status_code == status


def test_rejection_is_found_without_its_id_with_two_clicks(shop: Service, clicks: CountClicks) -> None:
    issued = shop.issue("Curious Clicks", "free")
    add_rejection(shop, issued["id"])
    with clicks(2) as page:
        follow(page, "Rejected requests")
        expect(page.get_by_label("Request ID, key or account")).to_be_focused()
        page.keyboard.type(issued["key"])
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/?q={issued['id']}*")
        follow(page, "Revoked key")
        expect(page.get_by_text("The key was revoked.")).to_be_visible()


def test_new_customer_gets_a_key_with_five_clicks(shop: Service, clicks: CountClicks) -> None:
    with clicks(5) as page:
        follow(page, "Accounts")
        page.locator(".addlink").click()
        for label, text in (("Name", "Five Clicks"), ("Plan", "Free")):
            page.get_by_label(label).focus()
            page.keyboard.type(text)
        press(page, "Save")
        follow(page, "Issue the first one")
        press(page, "Issue the key")
        key = page.get_by_label("The new key", exact=True).inner_text()
    assert get(shop, key).headers["X-RateLimit-Limit"] == "60"


def test_plan_is_changed_with_three_clicks_and_a_reason(shop: Service, clicks: CountClicks) -> None:
    issued = shop.issue("Larger Plan", "free")
    with clicks(3) as page:
        follow(page, "Accounts", "Change the plan: Larger Plan")
        give_reason(page, "They grow")
        page.get_by_role("button", name="Move to Pro 300 per minute, 10,000 per day").click()
        expect(page.get_by_text("They grow").first).to_be_visible()
    assert get(shop, issued["key"]).headers["X-RateLimit-Limit"] == "300"


def test_order_is_delivered_with_three_clicks(shop: Service, clicks: CountClicks) -> None:
    shop.issue("Delivered Clicks", "free")
    shop.manage("shell", "--no-imports", "-c", PLACE_ORDER)
    with clicks(3, "stock") as page:
        approve = page.get_by_role("button", name="Approve: order").first
        order = (approve.get_attribute("aria-label") or "").removeprefix("Approve: ")
        for step in ("Approve", "Ship now", "Deliver"):
            page.get_by_role("button", name=f"{step}: {order}").click()
        expect(page.get_by_text(f"{order.capitalize()} is delivered.")).to_be_visible()
