"""Daily tasks of each group of staff in a browser, and their immediate effect on API clients."""

import re

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.live import Service
from tests.support.two_factor import current_code
from tests.system.browser.conftest import Open, sign_in

ADD_REJECTION = """
from accounts.models import ApiKey
from tests.support.customers import add_rejection
key = ApiKey.objects.get(public_id={!r})
add_rejection(key, request_id=key.public_id[::-1], reason="revoked")
"""
PLACE_ORDER = """
from accounts.models import Account
from inventory.models import Order, Pet
pet = Pet.objects.filter(status="available", orders=None).first()
order = Order.objects.place(account_id=Account.objects.first().pk, pet_id=pet.pk, by="tests")
"""
NEW_COLLEAGUE = """
from django.contrib.auth.models import Group, User
user = User.objects.create(username={name!r}, is_staff=True)
user.groups.add(Group.objects.get(name="Viewer"))
"""


def get(shop: Service, key: str) -> httpx.Response:
    with shop.client(key) as client:
        return client.get("/pets?limit=1")


def add_rejection(shop: Service, public_id: str) -> None:
    """Revoke a key, and reject a request of it."""
    shop.manage("revoke_key", public_id, "--reason", "Leaked")
    shop.manage("shell", "--no-imports", "-c", ADD_REJECTION.format(public_id))


def press(page: Page, name: str) -> None:
    """Click the button or link of this name in the content."""
    words = re.compile(rf"(^|\s){re.escape(name)}$")  # Some have an icon before it.
    button, link = (page.get_by_role(role, name=words) for role in ("button", "link"))
    button.or_(link).last.click()


def choose(page: Page, label: str, words: str) -> None:
    """Select from an autocomplete field."""
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("searchbox").fill(words)
    page.get_by_role("option", name=words).first.click()


def key_page(page: Page, public_id: str) -> None:
    """Search for a key by its public ID and open it."""
    page.goto("/admin/accounts/apikey/")
    page.get_by_label(re.compile("^Search API keys")).fill(public_id)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=public_id, exact=True).click()


def test_key_is_issued_copied_and_used(shop: Service, open_page: Open) -> None:
    shop.issue("Corner Pets", "free")
    page = open_page("/admin/accounts/apikey/add/", as_="support")
    choose(page, "Account", "Corner Pets")
    page.get_by_label("Name").fill("Till")
    press(page, "Issue the key")
    expect(page.get_by_text("The key is shown only once")).to_be_visible()
    press(page, "Copy the key")
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    key = page.evaluate("navigator.clipboard.readText()")
    assert get(shop, key).status_code == 200


def test_click_during_a_pending_response_does_not_lose_it(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Impatient Pets", "free")
    page = open_page(as_="support")
    key_page(page, issued["id"])
    press(page, "Rotate")
    box = page.get_by_role("button", name="Rotate the key").bounding_box()
    assert box
    place = box["x"] + 5, box["y"] + 5

    def click_again(route: Route) -> None:
        response = route.fetch()
        page.mouse.click(*place)
        route.fulfill(response=response)

    page.route("**/rotate/", click_again, times=1)
    page.mouse.click(*place)
    new = page.get_by_label("The new key", exact=True).inner_text()
    assert get(shop, new).status_code == 200


def test_plan_is_changed_from_the_list_of_accounts(shop: Service, open_page: Open) -> None:
    issued = shop.issue("Larger Plan", "free")
    page = open_page("/admin/accounts/account/", as_="support")
    page.get_by_role("link", name="Change the plan: Larger Plan").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("They grow")
    page.get_by_role("button", name="Move to Pro 300 per minute, 10,000 per day").click()
    expect(page.get_by_text("They grow").first).to_be_visible()
    assert get(shop, issued["key"]).headers["X-RateLimit-Limit"] == "300"


def test_order_is_delivered_from_the_home_page(shop: Service, open_page: Open) -> None:
    shop.issue("Delivered", "free")
    shop.manage("shell", "--no-imports", "-c", PLACE_ORDER)
    page = open_page("/admin/", as_="stock")
    approve = page.get_by_role("button", name="Approve: order").first
    order = (approve.get_attribute("aria-label") or "").removeprefix("Approve: ")
    for step in ("Approve", "Ship now", "Deliver"):
        page.get_by_role("button", name=f"{step}: {order}").click()
    expect(page.get_by_text(f"{order.capitalize()} is delivered.")).to_be_visible()


@pytest.mark.parametrize("path", ["accounts/apikey/add/", "../docs/quickstart"])
def test_key_pasted_into_a_search_reaches_no_url(shop: Service, open_page: Open, path: str) -> None:
    key = shop.issue("Pasting Pets", "pro")["key"]
    asked: list[str] = []
    page = open_page(f"/admin/{path}", as_="owner")
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("document.body.append(document.createElement('textarea'))")
    page.locator("body > textarea").fill(key)
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+x")
    if path.endswith("add/"):  # Searches while typing.
        page.get_by_role("combobox", name="Account").click()
    page.locator(".select2-search__field, [role=search] input:not([type=hidden])").last.click()
    page.keyboard.press("Control+v")
    with page.expect_request(re.compile("term=|q=")):
        page.keyboard.press("Enter")
    assert not [url for url in asked if "psk_" in url or key[30:] in url]


# --- Occasional tasks


def test_pets_are_exported_in_one_format_and_then_in_another(open_page: Open) -> None:
    page = open_page("/admin/inventory/pet/export/", as_="stock")
    for file_format in ("csv", "jsonl"):
        page.get_by_label("Format").select_option(file_format)
        with page.expect_download() as download:
            press(page, "Export")
        assert download.value.suggested_filename.endswith(f".{file_format}")


def test_recovery_codes_are_copied_and_downloaded(shop: Service, open_page: Open) -> None:
    shop.manage("shell", "--no-imports", "-c", NEW_COLLEAGUE.format(name="codes"))
    page = open_page()
    sign_in(page.context, shop, "codes")
    page.goto("/account/security/app/")
    secret = page.locator("code.secret").inner_text()
    page.get_by_label(re.compile("code", re.I)).first.fill(current_code(secret))
    page.keyboard.press("Enter")
    codes = page.get_by_role("list", name="Recovery codes").inner_text().split()
    press(page, "Copy codes")
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").split() == codes
    with page.expect_download() as download:
        page.get_by_role("link", name="Download codes").click()
    assert download.value.path().read_text().split() == codes


def test_orders_are_approved_without_javascript(shop: Service, plain_page: Page) -> None:
    key = shop.issue("Plain Pets", "pro")["key"]
    with shop.client(key) as client:
        pets = client.get("/pets?status=available&limit=3").json()
        orders = [client.post("/store/orders", json={"petId": pet["id"]}).json()["id"] for pet in pets]
        sign_in(plain_page.context, shop, "stock")
        plain_page.goto("/admin/inventory/order/?q=Plain+Pets")
        plain_page.get_by_role("button", name=f"Approve: order {orders[0]}").click()
        for order in orders[1:]:
            plain_page.locator(f"input.action-select[value='{order}']").check()
        plain_page.get_by_role("button", name="Approve", exact=True).click()
        expect(plain_page.get_by_text("2 orders approved.")).to_be_visible()
        assert {client.get(f"/store/orders/{order}").json()["status"] for order in orders} == {"approved"}
