"""The geometry of the back office's lists."""

import pytest
from playwright.sync_api import expect

from tests.support.live import Service
from tests.support.thorough import some_pages
from tests.system.browser.conftest import Open
from tests.system.browser.test_daily_work import add_rejection

LISTS = [
    "inventory/order/", "inventory/pet/", "inventory/category/", "accounts/apikey/", "accounts/account/",
    "accounts/plan/", "accounts/event/", "accounts/rejection/", "auth/user/", "auth/group/",
    "backoffice/auditentry/",
]  # fmt: skip
MAX_ROW_HEIGHT = 110  # Pixels.
# Long names and addresses wrap.
HEIGHTS = """rows => rows.filter((row) => row.innerText.length < 140)
    .map((row) => row.getBoundingClientRect().height)"""
SHIP = """
from inventory.models import Order
from petstore.audit import Actor, record
order = Order.objects.get(pk={})
order.approve(by="t")
order.ship(by="t")
record(Actor("t"), order, "changed", reason="Shipped.")
"""


@pytest.fixture(scope="module", autouse=True)
def rows(shop: Service) -> None:
    """A row in each list: orders with and without a ship date, an audit entry and a rejection."""
    issued = shop.issue("The Rabbits of the North", "pro")
    with shop.client(issued["key"]) as client:
        pets = client.get("/pets?limit=20&status=available").json()
        for pet in pets[-2:]:
            order = client.post("/store/orders", json={"petId": pet["id"]}).json()["id"]
    shop.manage("shell", "--no-imports", "-c", SHIP.format(order))
    add_rejection(shop, issued["id"])


@pytest.mark.parametrize("path", some_pages(LISTS))
def test_rows_are_compact_on_a_phone(open_page: Open, path: str) -> None:
    page = open_page(f"/admin/{path}", as_="root", narrow=True)
    rows = page.locator(":is(#result_list .data-row, .rejections tbody tr)")
    expect(rows.first).to_be_visible()
    heights = rows.evaluate_all(HEIGHTS)
    assert heights
    assert max(heights) <= MAX_ROW_HEIGHT


def test_tables_of_an_account_fit_a_phone(shop: Service, open_page: Open) -> None:
    account = shop.issue("Tables of the North")["id"][:8]
    shop.manage("invite", "--account", account, "--email", "a-long-address-of-a-member@example.com")
    page = open_page(f"/admin/accounts/account/?q={account}", as_="support", narrow=True)
    page.get_by_role("link", name="Tables of the North", exact=True).click()
    expect(page.get_by_role("link", name="Unnamed key")).to_be_visible()
    hidden = "tables => tables.map((table) => table.scrollWidth - table.clientWidth)"
    assert page.locator(".rows").evaluate_all(hidden) == [0, 0]
